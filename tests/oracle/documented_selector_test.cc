// The selector that docs/selectors.md shows, as it stands there, against an
// oracle of its own: a page that no longer compiles, or no longer chooses what
// it says, fails here.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backend/conformance/listed_tokens.h"
#include "backend/cpu/cpu_backend.h"
#include "documented/bound.inc"
#include "sparse/spec/selector.h"

namespace winnow {
namespace {

constexpr const SelectorKind* kDocumented[] = {&kBoundSelector};
constexpr std::string_view kSpec = "bound:budget=64,block=16,recent=20";
constexpr int64_t kBlock = 16, kRecent = 20, kBudgetBlocks = 64 / kBlock;

SelectorShape ShapeFor(const KvShape& shape) {
  return {.num_layers = 2,
          .num_q_heads = shape.num_q_heads(),
          .num_kv_heads = shape.num_kv_heads,
          .head_dim = shape.k_dim,
          .kv_dtype = shape.dtype,
          .max_context_tokens = 4096,
          .windows = {0, 0}};
}

// The most that q k of any of the group's heads and any key of the block can
// be, channel by channel.
double BoundOf(const SparseCase& sparse, int64_t row, int kv_head,
               int64_t block) {
  const KvShape& shape = sparse.paged.shape();
  double greatest = -std::numeric_limits<double>::infinity();
  for (int g = 0; g < shape.group_heads; ++g) {
    double bound = 0;
    for (int c = 0; c < shape.k_dim; ++c) {
      const double q = sparse.q.at(row, kv_head * shape.group_heads + g, c);
      double most = -std::numeric_limits<double>::infinity();
      for (int64_t t = block * kBlock; t < (block + 1) * kBlock; ++t) {
        most = std::max(most, q * sparse.paged.keys(0).at(t, kv_head, c));
      }
      bound += most;
    }
    greatest = std::max(greatest, bound);
  }
  return greatest;
}

// By token: the own block, those of the last tokens before it, and of the
// others the best.
std::vector<bool> ExpectedTokens(const SparseCase& sparse, int64_t row,
                                 int64_t context, int kv_head) {
  const int64_t own = (context - 1) / kBlock;
  const int64_t first_forced = std::max<int64_t>(own * kBlock - kRecent, 0);
  std::vector<std::pair<double, int64_t>> ranked;
  for (int64_t block = 0; block < first_forced / kBlock; ++block) {
    ranked.emplace_back(-BoundOf(sparse, row, kv_head, block), block);
  }
  std::ranges::sort(ranked);
  std::vector<bool> tokens(static_cast<size_t>(context), false);
  const auto read = [&tokens](int64_t block) {
    for (int64_t t = block * kBlock; t < (block + 1) * kBlock; ++t) {
      if (t < std::ssize(tokens)) tokens[static_cast<size_t>(t)] = true;
    }
  };
  for (int64_t block = first_forced / kBlock; block <= own; ++block) {
    read(block);
  }
  for (int64_t i = 0; i < std::min(kBudgetBlocks, std::ssize(ranked)); ++i) {
    read(ranked[static_cast<size_t>(i)].second);
  }
  return tokens;
}

void ExpectPicks(int seed, CpuKernels kernels) {
  RandomSource random(static_cast<uint64_t>(seed));
  const KvShape shape = {
      .dtype = random.Among({Dtype::kBFloat16, Dtype::kFloat32}),
      .num_kv_heads = 2,
      .group_heads = random.Among({1, 3, 4}),
      .k_dim = 32};
  const auto first = static_cast<int32_t>(random.Between(0, 600));
  SparseCase sparse(shape, {{first, 3, 0}}, random);
  const Selector selector =
      MakeSelector(kSpec, ShapeFor(shape), kDocumented).value();
  sparse.programs = {selector.program};
  sparse.selectors = {0};
  sparse.prompt_tokens = {0};
  TestDevice device(MakeCpuBackend({.num_threads = 2, .kernels = kernels}));
  const SparseResult got =
      RunSparse(device, sparse, {.summarize_tokens = 1 + 37 * (seed % 3)});
  ForEachRow(sparse, [&](size_t, int32_t, int64_t row, int64_t context) {
    const auto& lists = got.picks[static_cast<size_t>(row)];
    ASSERT_EQ(std::ssize(lists), shape.num_kv_heads);
    for (int list = 0; list < shape.num_kv_heads; ++list) {
      EXPECT_EQ(TokensOf(lists[static_cast<size_t>(list)], context),
                ExpectedTokens(sparse, row, context, list))
          << "context " << context << ", KV head " << list;
    }
  });
}

TEST(DocumentedSelectorTest, ChoosesTheBestBounds) {
  for (int seed = 0; seed < 24 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    ExpectPicks(seed, CpuKernels::kScalar);
    ExpectPicks(seed, CpuKernels::kBest);
  }
}

// What the page says is there once it is listed.
TEST(DocumentedSelectorTest, IsHeldToItsNamesAndRanges) {
  const SelectorShape shape = ShapeFor({.dtype = Dtype::kBFloat16});
  const auto error_of = [&shape](std::string_view spec) {
    const Result<Selector> made = MakeSelector(spec, shape, kDocumented);
    return made.ok() ? "" : made.error().message;
  };
  EXPECT_EQ(error_of("bound"), "");
  EXPECT_EQ(error_of("bound:blok=16"),
            "--select bound: \"blok\" is unknown, did you mean \"block\"? "
            "There are budget, block, recent, dense_layers");
  EXPECT_EQ(error_of("bound:block=24"),
            "--select bound: block must be a power of two from 8 to 65536, is "
            "24");
  EXPECT_EQ(error_of("bound:budget=16"),
            "--select bound: budget must be at least 32 tokens (1 x 32), is "
            "16");
  const Selector one_dense =
      MakeSelector("bound:dense_layers=0", shape, kDocumented).value();
  EXPECT_EQ(one_dense.ForLayer(0), nullptr);
  EXPECT_NE(one_dense.ForLayer(1), nullptr);
}

}  // namespace
}  // namespace winnow
