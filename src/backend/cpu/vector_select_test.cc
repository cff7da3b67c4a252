#include "backend/cpu/vector_select.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/forwarding.h"
#include "backend/select_oracle.h"
#include "backend/sparse_case.h"

namespace winnow {
namespace {

// The CPU's backend whose Select works in waves of so many scores.
class WavesBackend final : public ForwardingBackend {
 public:
  WavesBackend(int num_threads, int64_t wave_scores)
      : ForwardingBackend(MakeCpuBackend({.num_threads = num_threads})),
        pool_(num_threads),
        select_(AvailableCpuKernels().back(), pool_, wave_scores) {}

  void Select(Queue&, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override {
    select_.Select(step, args, cache, {});
  }

 private:
  ThreadPool pool_;
  VectorSelect select_;
};

// Rows that need scores stand beside rows that need none, and whatever a wave
// may have, some have more.
TEST(VectorSelectTest, ListsDoNotDependOnWaves) {
  if (AvailableCpuKernels().back() == CpuKernels::kScalar) GTEST_SKIP();
  for (int seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    RandomSource random(static_cast<uint64_t>(seed));
    const SparseCase sparse = RandomSparseCase(random, 900);
    TestDevice device(MakeCpuBackend({.num_threads = 1}));
    const SparseResult expected = RunSparse(device, sparse);
    for (const int64_t wave_scores : {1, 100, 5000}) {
      TestDevice waves(
          std::make_unique<WavesBackend>(1 + seed % 3, wave_scores));
      const SparseResult got = RunSparse(waves, sparse);
      EXPECT_TRUE(got.picks == expected.picks) << wave_scores;
      EXPECT_TRUE(got.read_shares.values == expected.read_shares.values);
    }
  }
}

// Whether a worker makes the lists of some KV heads alone, or all scan pieces
// and then choose, as where KV heads are fewer than they.
TEST(VectorSelectTest, ListsDoNotDependOnWorkers) {
  for (int seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    RandomSource random(static_cast<uint64_t>(seed));
    const KvShape shape = {.dtype = Dtype::kBFloat16,
                           .num_kv_heads = 8,
                           .group_heads = 1 + seed % 4,
                           .k_dim = 32};
    const SparseCase sparse = ManySummariesCase(
        shape, static_cast<int32_t>(random.Between(1000, 1500)), random);
    TestDevice one(MakeCpuBackend({.num_threads = 1}));
    const SparseResult expected = RunSparse(one, sparse);
    for (const int num_threads : {2, 3, 8, 16}) {
      TestDevice device(MakeCpuBackend({.num_threads = num_threads}));
      EXPECT_TRUE(RunSparse(device, sparse).picks == expected.picks)
          << num_threads;
    }
  }
}

// A long row, and behind it one that reads everything.
TEST(VectorSelectTest, ARowBeyondAWaveKeepsItsScores) {
  if (AvailableCpuKernels().back() == CpuKernels::kScalar) GTEST_SKIP();
  RandomSource random(1);
  KvShape shape;
  SparseCase sparse(shape, {{2000, 1, 0}, {70, 1, 0}}, random);
  SelectProgram program;
  program.block_tokens = 1;
  program.rows = {SummaryRows::Kind::kKeys, 1, 1, Dtype::kFloat32};
  program.budget = {Amount::Unit::kTokens, 64};
  sparse.programs = {program};
  sparse.selectors = {0, -1};
  sparse.prompt_tokens = {0, 0};
  TestDevice device(MakeCpuBackend({.num_threads = 2}));
  TestDevice waves(std::make_unique<WavesBackend>(2, 1000));
  EXPECT_TRUE(RunSparse(waves, sparse).picks ==
              RunSparse(device, sparse).picks);
}

// KV heads beyond those of one scan, and groups beyond a kernel's rows.
TEST(VectorSelectTest, ScansOfManyHeadsChooseTheBest) {
  if (AvailableCpuKernels().back() == CpuKernels::kScalar) GTEST_SKIP();
  constexpr int kShapes[][2] = {{9, 2}, {17, 1}, {16, 4}, {2, 17}, {1, 33}};
  for (int seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    RandomSource random(static_cast<uint64_t>(seed));
    const auto& [num_kv_heads, group_heads] = kShapes[seed % 5];
    const KvShape shape = {
        .dtype =
            random.Among({Dtype::kBFloat16, Dtype::kFloat32, Dtype::kFloat16}),
        .num_kv_heads = num_kv_heads,
        .group_heads = group_heads,
        .k_dim = random.Among({16, 32})};
    const SparseCase sparse = ManySummariesCase(
        shape, static_cast<int32_t>(random.Between(300, 700)), random);
    TestDevice device(MakeCpuBackend({.num_threads = 1 + seed % 3}));
    const SparseResult got = RunSparse(device, sparse);
    const int64_t context = sparse.paged.requests()[0].end_position();
    ASSERT_EQ(std::ssize(got.picks[0]), sparse.NumLists(sparse.programs[0]));
    for (int list = 0; list < std::ssize(got.picks[0]); ++list) {
      ExpectChoice(sparse, sparse.programs[0], {0, 0, context, list},
                   got.picks[0][static_cast<size_t>(list)]);
    }
  }
}

}  // namespace
}  // namespace winnow
