#include "backend/cpu/isa/vector_select.h"

#include <gtest/gtest.h>

#include "backend/conformance/select_oracle.h"
#include "backend/conformance/sparse_case.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/forwarding.h"

namespace winnow {
namespace {

// The CPU's backend whose Select works within such limits.
class LimitedBackend final : public ForwardingBackend {
 public:
  LimitedBackend(int num_threads, const VectorSelect::Limits& limits)
      : ForwardingBackend(MakeCpuBackend({.num_threads = num_threads})),
        pool_(num_threads),
        select_(AvailableCpuKernels().back(), pool_, limits) {}

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
      TestDevice waves(std::make_unique<LimitedBackend>(
          1 + seed % 3, VectorSelect::Limits{.wave_scores = wave_scores,
                                             .unit_slots = seed % 2}));
      const SparseResult got = RunSparse(waves, sparse);
      EXPECT_TRUE(got.picks == expected.picks) << wave_scores;
      EXPECT_TRUE(got.read_shares.values == expected.read_shares.values);
    }
  }
}

// Rows of requests with programs of all kinds but those that choose for a
// layer, prompts among them, and some that read everything.
SparseCase ManyRowsCase(int seed) {
  RandomSource random(static_cast<uint64_t>(seed));
  const KvShape shape = {.dtype = Dtype::kBFloat16,
                         .num_kv_heads = 1 + seed % 5,
                         .group_heads = 1 + seed % 3,
                         .k_dim = 32};
  SparseCase sparse(
      shape, {{700, 1, 0}, {450, 3, 3}, {800, 6, 6}, {100, 2, 2}, {600, 1, 0}},
      random);
  constexpr int kPrograms = 3;
  while (std::ssize(sparse.programs) < kPrograms) {
    SelectProgram program = RandomProgram(
        shape.dtype, static_cast<uint32_t>(SelectFeature::kClusters), random);
    if (program.scope == Scope::kLayer) continue;
    program.in_prompt |= program.rows.kind != SummaryRows::Kind::kClusters &&
                         program.fixed.kind == FixedChoice::Kind::kNone;
    program.dense_len = 0;
    sparse.programs.push_back(program);
  }
  sparse.selectors = {0, 1, 2, -1, seed % kPrograms};
  for (const RequestRows& rows : sparse.paged.requests()) {
    sparse.prompt_tokens.push_back(rows.end_position());
  }
  return sparse;
}

// Whether a worker makes the lists of some KV heads alone, which one that has
// no other always does, or all scan pieces and then choose.
TEST(VectorSelectTest, ListsOfUnitsAreThoseOfPieces) {
  if (AvailableCpuKernels().back() == CpuKernels::kScalar) GTEST_SKIP();
  for (int seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    const SparseCase sparse = ManyRowsCase(seed);
    TestDevice units(std::make_unique<LimitedBackend>(
        1, VectorSelect::Limits{.unit_slots = 0}));
    TestDevice pieces(std::make_unique<LimitedBackend>(
        1 + seed % 3, VectorSelect::Limits{.unit_slots = 1 << 20}));
    const SparseResult got = RunSparse(units, sparse);
    const SparseResult expected = RunSparse(pieces, sparse);
    EXPECT_TRUE(got.picks == expected.picks);
    EXPECT_TRUE(got.read_shares.values == expected.read_shares.values);
  }
}

// Workers that each make units, as two and eight do, or scan pieces.
TEST(VectorSelectTest, ListsDoNotDependOnWorkers) {
  if (AvailableCpuKernels().back() == CpuKernels::kScalar) GTEST_SKIP();
  for (int seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    RandomSource random(static_cast<uint64_t>(seed));
    const KvShape shape = {.dtype = Dtype::kBFloat16,
                           .num_kv_heads = 8,
                           .group_heads = 1 + seed % 4,
                           .k_dim = 32};
    const SparseCase sparse = ManySummariesCase(
        shape, static_cast<int32_t>(random.Between(1000, 2500)), random);
    TestDevice one(MakeCpuBackend({.num_threads = 1}));
    const SparseResult expected = RunSparse(one, sparse);
    for (const int num_threads : {2, 3, 8, 16}) {
      TestDevice device(std::make_unique<LimitedBackend>(
          num_threads, VectorSelect::Limits{.unit_slots = 0}));
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
  TestDevice waves(std::make_unique<LimitedBackend>(
      2, VectorSelect::Limits{.wave_scores = 1000}));
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
