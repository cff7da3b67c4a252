// The conformance suite: keys that are no numbers, infinite, or greater than
// all others. What is read is then of no use, but lists stay what they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backend/conformance/listed_tokens.h"
#include "backend/conformance/seeded_test.h"
#include "backend/conformance/select_oracle.h"

namespace winnow {
namespace {

constexpr double kInfiniteKey = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kHuge = 60000;  // as float16 holds it

// Whole keys, or one channel of them, of some tokens of every request, or all.
void PlantHostileKeys(PagedCase& paged, RandomSource& random) {
  for (size_t r = 0; r < paged.requests().size(); ++r) {
    TestArray keys = paged.keys(r);
    const int64_t key_size =
        int64_t{paged.shape().num_kv_heads} * paged.shape().k_dim;
    const int64_t num_tokens = std::ssize(keys.values) / key_size;
    const bool all = random.Chance(0.2);
    const int64_t num_hostile =
        all ? num_tokens : random.Between(1, 1 + num_tokens / 8);
    for (int64_t i = 0; i < num_hostile; ++i) {
      const int64_t token = all ? i : random.Between(0, num_tokens - 1);
      const double value =
          random.Among({kNaN, kInfiniteKey, -kInfiniteKey, kHuge, -kHuge});
      const bool whole = random.Chance(0.5);
      const int64_t first = whole ? 0 : random.Between(0, key_size - 1);
      const int64_t last = whole ? key_size - 1 : first;
      for (int64_t c = first; c <= last; ++c) {
        keys.values[static_cast<size_t>(token * key_size + c)] = value;
      }
    }
    paged.SetKeysAndValues(r, std::move(keys), paged.values(r));
  }
}

class HostileKeysConformanceTest : public SeededTest {};

TEST_P(HostileKeysConformanceTest, ListsStayWithinTheirBudgetAndContext) {
  ForSeeds(60, [this](RandomSource& random, int num_threads) {
    TestDevice device = Device(num_threads);
    SparseCase sparse = RandomSparseCase(
        random, 400, device.backend().attributes().select_features);
    PlantHostileKeys(sparse.paged, random);
    const SparseResult got = RunSparse(device, sparse);
    ForEachRow(sparse, [&](size_t r, int32_t t, int64_t row, int64_t context) {
      const SelectProgram* program = sparse.ProgramOf(r, t);
      for (const auto& list : got.picks[static_cast<size_t>(row)]) {
        if (program == nullptr) {
          EXPECT_TRUE(IsEveryPage(list));
        } else if (program->rows.kind == SummaryRows::Kind::kClusters) {
          (void)TokensOf(list, context);
        } else {
          ExpectBudget(
              *program, context,
              ExpectPartitions(*program, context, TokensOf(list, context)));
        }
      }
    });
  });
}

// All other keys are equal, so that the lowest of their pages win.
TEST_P(HostileKeysConformanceTest, AMeanThatIsNoNumberScoresLeast) {
  RandomSource random(1);
  KvShape shape;
  shape.group_heads = 2;
  SparseCase sparse(shape, {{999, 1, 0}}, random);
  sparse.paged.RepeatFirstKey(0);
  TestArray keys = sparse.paged.keys(0);
  keys.values[0] = kNaN;
  keys.values[static_cast<size_t>(kPageTokens * shape.k_dim)] = kNaN;
  sparse.paged.SetKeysAndValues(0, std::move(keys), sparse.paged.values(0));
  SelectProgram program;
  program.rows = {SummaryRows::Kind::kMean, 32, 32, Dtype::kFloat32};
  program.forced = {.sink_tokens = 0, .recent_tokens = 32};
  program.budget = {Amount::Unit::kTokens, 96};
  sparse.programs = {program};
  sparse.selectors = {0};
  sparse.prompt_tokens = {0};
  TestDevice device = Device(2);
  const SparseResult got = RunSparse(device, sparse);
  const std::vector<Pick> expected = {
      {2, ~0u}, {3, ~0u}, {4, ~0u}, {30, ~0u}, {31, 0xffu}};
  EXPECT_EQ(got.picks[0][0], expected);
}

INSTANTIATE_TEST_SUITE_P(Backends, HostileKeysConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
