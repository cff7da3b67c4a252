// The conformance suite, part four: Summarize, Select and Attend over picks
// against float64, and the bits that must not change.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backend/conformance/attention_oracle.h"
#include "backend/conformance/listed_tokens.h"
#include "backend/conformance/seeded_test.h"
#include "backend/conformance/select_oracle.h"

namespace winnow {
namespace {

// Attention over the tokens that the lists name, in float64.
void ExpectAttention(const SparseCase& sparse, const SparseResult& got) {
  const KvShape& shape = sparse.paged.shape();
  AttentionCloseness close(shape.dtype, got.out, got.lse);
  ForEachRow(sparse, [&](size_t r, int32_t, int64_t row, int64_t context) {
    const auto& lists = got.picks[static_cast<size_t>(row)];
    for (int head = 0; head < shape.num_q_heads(); ++head) {
      const std::vector<bool> named =
          TokensOf(lists[static_cast<size_t>(head) * lists.size() /
                         static_cast<size_t>(shape.num_q_heads())],
                   context);
      std::vector<int64_t> tokens;
      for (int64_t t = 0; t < context; ++t) {
        if (named[static_cast<size_t>(t)]) tokens.push_back(t);
      }
      close.Expect(
          row, head,
          Attend(sparse.paged, r, head / shape.group_heads,
                 sparse.q.numbers(row, head), double{sparse.scale}, tokens));
    }
  });
}

void ExpectSame(const SparseResult& got, const SparseResult& expected) {
  EXPECT_TRUE(got.summaries == expected.summaries);
  EXPECT_TRUE(got.picks == expected.picks);
  EXPECT_TRUE(got.read_shares.values == expected.read_shares.values);
  EXPECT_TRUE(got.out.values == expected.out.values);
  EXPECT_TRUE(got.lse.values == expected.lse.values);
}

class SelectConformanceTest : public SeededTest {
 protected:
  SparseCase RandomCase(RandomSource& random, int max_position) {
    const uint32_t features = Device(1).backend().attributes().select_features;
    return RandomSparseCase(random, max_position, features);
  }
};

TEST_P(SelectConformanceTest, ChoosesTheBestAndReadsThem) {
  ForSeeds(60, [this](RandomSource& random, int num_threads) {
    const SparseCase sparse = RandomCase(random, 400);
    TestDevice device = Device(num_threads);
    const SparseResult got = RunSparse(device, sparse);
    ForEachRow(sparse, [&](size_t r, int32_t t, int64_t row, int64_t context) {
      const auto& lists = got.picks[static_cast<size_t>(row)];
      double num_read = 0;
      for (const auto& list : lists) {
        num_read += static_cast<double>(
            std::ranges::count(TokensOf(list, context), true));
      }
      if (sparse.selectors[r] < 0) num_read = 0;
      EXPECT_NEAR(
          got.read_shares.values[static_cast<size_t>(row)],
          0.25 + num_read / static_cast<double>(std::ssize(lists) * context),
          1e-6);
      const SelectProgram* program = sparse.ProgramOf(r, t);
      if (program == nullptr) {
        ASSERT_EQ(lists.size(), 1u);
        ASSERT_TRUE(IsEveryPage(lists[0]));
        return;
      }
      ASSERT_EQ(std::ssize(lists), sparse.NumLists(*program));
      // Clusters have oracles of their own: tests/oracle.
      if (program->rows.kind == SummaryRows::Kind::kClusters) return;
      // A scope's rows are many; the oracle is slow.
      if (row % 3 != 0 && row > 4) return;
      for (int list = 0; list < sparse.NumLists(*program); ++list) {
        ExpectChoice(sparse, *program, {r, row, context, list},
                     lists[static_cast<size_t>(list)]);
      }
    });
    ExpectAttention(sparse, got);
  });
}

// Summaries of a 16-bit type, or of fp8 where the backend has that.
SparseCase ManySummaries(uint32_t features, RandomSource& random) {
  const KvShape shape = {
      .dtype = random.Among({Dtype::kBFloat16, Dtype::kFloat16}),
      .num_kv_heads = random.Among({1, 2}),
      .group_heads = random.Among({1, 4, 12}),
      .k_dim = random.Among({32, 64, 96, 128}),
      .v_dim = 16};
  const auto context = static_cast<int32_t>(random.Between(1200, 2400));
  SparseCase sparse = ManySummariesCase(shape, context, random);
  SummaryRows& rows = sparse.programs[0].rows;
  if ((features & static_cast<uint32_t>(SelectFeature::kFloat8Rows)) != 0 &&
      rows.kind != SummaryRows::Kind::kKeys && random.Chance(0.4)) {
    rows.dtype = Dtype::kFloat8E4M3;
  }
  return sparse;
}

TEST_P(SelectConformanceTest, ChoosesTheBestOfManySummaries) {
  ForSeeds(30, [this](RandomSource& random, int num_threads) {
    TestDevice device = Device(num_threads);
    const SparseCase sparse =
        ManySummaries(device.backend().attributes().select_features, random);
    const SparseResult got = RunSparse(device, sparse);
    const int64_t context = sparse.paged.requests()[0].end_position();
    for (int list = 0; list < std::ssize(got.picks[0]); ++list) {
      ExpectChoice(sparse, sparse.programs[0], {0, 0, context, list},
                   got.picks[0][static_cast<size_t>(list)]);
    }
  });
}

TEST_P(SelectConformanceTest, BudgetOfAllIsDenseBitForBit) {
  ForSeeds(30, [this](RandomSource& random, int num_threads) {
    SparseCase sparse = RandomCase(random, 3000);
    for (SelectProgram& program : sparse.programs) {
      program.budget = {Amount::Unit::kShare, 2.0};
      program.dense_len = 0;
    }
    TestDevice device = Device(num_threads);
    const SparseResult dense =
        RunSparse(device, sparse, {.read_all_pages = true});
    const SparseResult got = RunSparse(device, sparse);
    EXPECT_TRUE(got.out.values == dense.out.values);
    EXPECT_TRUE(got.lse.values == dense.lse.values);
  });
}

// Summaries do not depend on the steps that the tokens came in, lists and
// results not on the rows that they are computed with, nor on threads.
TEST_P(SelectConformanceTest, BitsDoNotDependOnChunks) {
  ForSeeds(30, [this](RandomSource& random, int num_threads) {
    const SparseCase sparse = RandomCase(random, 1500);
    TestDevice device = Device(1);
    const SparseResult expected = RunSparse(device, sparse);
    for (const int chunk : {1 + static_cast<int>(random.Between(0, 30)), 64}) {
      TestDevice other = Device(num_threads);
      ExpectSame(RunSparse(other, sparse,
                           {.summarize_tokens = chunk, .select_rows = chunk}),
                 expected);
    }
  });
}

TEST_P(SelectConformanceTest, BitsDoNotDependOnKvBlocks) {
  ForSeeds(10, [this](RandomSource& random, int num_threads) {
    SparseCase sparse = RandomCase(random, 1500);
    TestDevice device = Device(num_threads);
    const SparseResult expected = RunSparse(device, sparse);
    sparse.paged.Shuffle(random);
    ExpectSame(RunSparse(device, sparse), expected);
  });
}

TEST_P(SelectConformanceTest, PicksGrowWithTheBudget) {
  ForSeeds(20, [this](RandomSource& random, int num_threads) {
    SparseCase sparse = RandomCase(random, 1500);
    ListedTokens before;
    for (const double budget : {0.0, 64.0, 128.0, 500.0, 2000.0}) {
      for (SelectProgram& program : sparse.programs) {
        program.budget = {Amount::Unit::kTokens, budget};
      }
      TestDevice device = Device(num_threads);
      ExpectGrown(sparse, RunSparse(device, sparse), before);
    }
  });
}

// A layer that keeps its lists reads everything, and those after it read what
// it would have read, whatever their own keys and queries.
TEST_P(SelectConformanceTest, KeptListsAreReadInLaterLayers) {
  ForSeeds(20, [this](RandomSource& random, int num_threads) {
    SparseCase sparse = RandomCase(random, 900);
    TestDevice device = Device(num_threads);
    const SparseResult chosen = RunSparse(device, sparse);
    const SparseResult dense =
        RunSparse(device, sparse, {.read_all_pages = true});
    const PickLists lists = MakeKeptLists(device, sparse);
    const SparseResult keeping =
        RunSparse(device, sparse, {.keeps_lists = true, .lists = lists});
    EXPECT_TRUE(keeping.out.values == dense.out.values);
    for (int layer = 1; layer < 3; ++layer) {
      sparse.q =
          RandomArray(sparse.paged.shape().dtype, sparse.q.shape, random);
      const SparseResult got = RunSparse(
          device, sparse, {.layer = layer, .reuse_layer = 0, .lists = lists});
      EXPECT_TRUE(got.picks == chosen.picks);
      EXPECT_TRUE(got.read_shares.values == chosen.read_shares.values);
      ExpectAttention(sparse, got);
    }
  });
}

// Equal keys score alike, in whatever bits: the lowest pages win.
TEST_P(SelectConformanceTest, TiesGoToTheLowestIndex) {
  RandomSource random(1);
  for (const auto kind : {SummaryRows::Kind::kMean, SummaryRows::Kind::kMinMax,
                          SummaryRows::Kind::kCuboid}) {
    KvShape shape;
    shape.group_heads = 2;
    SparseCase sparse(shape, {{999, 1, 0}}, random);
    sparse.paged.RepeatFirstKey(0);
    SelectProgram program;
    program.rows = {kind, 32, 32, Dtype::kFloat32};
    program.forced = {.sink_tokens = 0, .recent_tokens = 32};
    program.budget = {Amount::Unit::kTokens, 96};
    sparse.programs = {program};
    sparse.selectors = {0};
    sparse.prompt_tokens = {0};
    TestDevice device = Device(2);
    const SparseResult got = RunSparse(device, sparse);
    const std::vector<Pick> expected = {
        {0, ~0u}, {1, ~0u}, {2, ~0u}, {30, ~0u}, {31, 0xffu}};
    EXPECT_EQ(got.picks[0][0], expected) << static_cast<int>(kind);
  }
}

// A row over very many partitions whose keys are few, so that most scores tie
// across whatever shares the work, and the greatest of each list by class.
struct TiedCase {
  SparseCase sparse;
  int64_t context;
  std::vector<size_t> classes;  // by partition
  TestArray class_keys;         // [classes, kv_heads, k_dim]

  static KvShape ShapeOf(RandomSource& random) {
    KvShape shape;
    shape.num_kv_heads = static_cast<int>(random.Between(1, 2));
    shape.group_heads = static_cast<int>(random.Between(1, 2));
    return shape;
  }

  explicit TiedCase(RandomSource& random)
      : sparse(ShapeOf(random),
               {{static_cast<int32_t>(random.Between(4000, 9999)), 1, 0}},
               random),
        context(sparse.paged.requests()[0].end_position()) {
    SelectProgram program;
    program.scope = random.Among({Scope::kQHead, Scope::kKvHead});
    program.group = Reduction::kMax;
    program.block_tokens = random.Among({1, 1, 4, 8, 16, 32, 64});
    const int block = program.block_tokens;
    program.rows = block == 1 ? SummaryRows{SummaryRows::Kind::kKeys, 1, 1,
                                            Dtype::kFloat32}
                              : SummaryRows{SummaryRows::Kind::kMean, block,
                                            block, Dtype::kFloat32};
    program.forced = {.sink_tokens = random.Among({0, 1, 100}),
                      .recent_tokens = random.Among({0, 64, 333, 3000}),
                      .inside_budget = random.Chance(0.5)};
    program.budget = {Amount::Unit::kTokens,
                      static_cast<double>(random.Between(0, context))};
    sparse.programs = {program};
    sparse.selectors = {0};
    sparse.prompt_tokens = {0};
    DrawKeys(block, random);
  }

  void DrawKeys(int64_t block, RandomSource& random) {
    const KvShape& shape = sparse.paged.shape();
    const int64_t size = int64_t{shape.num_kv_heads} * shape.k_dim;
    const int64_t num_classes = random.Between(1, 7);
    class_keys = RandomArray(
        shape.dtype, {num_classes, shape.num_kv_heads, shape.k_dim}, random);
    for (int64_t token = 0; token < context; token += block) {
      classes.push_back(
          static_cast<size_t>(random.Between(0, num_classes - 1)));
    }
    TestArray keys = sparse.paged.keys(0);
    for (int64_t token = 0; token < context; ++token) {
      const size_t of = classes[static_cast<size_t>(token / block)];
      std::copy_n(class_keys.values.begin() + static_cast<int64_t>(of) * size,
                  size, keys.values.begin() + token * size);
    }
    sparse.paged.SetKeysAndValues(0, keys, sparse.paged.values(0));
  }

  // Of a list: a class's score, in float64.
  double ScoreOf(size_t of_class, int list) const {
    const auto [first, end] = sparse.HeadsOf(sparse.programs[0], list);
    double greatest = -std::numeric_limits<double>::infinity();
    for (int head = first; head < end; ++head) {
      double score = 0;
      for (int c = 0; c < sparse.paged.shape().k_dim; ++c) {
        score += sparse.q.at(0, head, c) *
                 class_keys.at(static_cast<int64_t>(of_class),
                               head / sparse.paged.shape().group_heads, c);
      }
      greatest = std::max(greatest, score);
    }
    return greatest;
  }

  // Partitions that a list reads: forced ones, then the best by score and
  // index, sorted.
  std::vector<bool> Expected(int list) const {
    const SelectProgram& program = sparse.programs[0];
    std::vector<bool> read = OracleForced(program, context);
    std::vector<size_t> free;
    for (size_t b = 0; b < read.size(); ++b) {
      if (!read[b]) free.push_back(b);
    }
    int64_t count = program.budget.TokensOf(context) / program.block_tokens;
    if (program.budget.TokensOf(context) >= context) count = std::ssize(read);
    if (program.forced.inside_budget) count -= std::ranges::count(read, true);
    count = std::clamp<int64_t>(count, 0, std::ssize(free));
    std::ranges::stable_sort(free, std::greater<>(), [&](size_t b) {
      return ScoreOf(classes[b], list);
    });
    for (int64_t i = 0; i < count; ++i)
      read[free[static_cast<size_t>(i)]] = true;
    return read;
  }
};

void ExpectReads(const TiedCase& tied, const SparseResult& got) {
  const SelectProgram& program = tied.sparse.programs[0];
  ASSERT_EQ(std::ssize(got.picks[0]), tied.sparse.NumLists(program));
  for (int list = 0; list < tied.sparse.NumLists(program); ++list) {
    const std::vector<bool> tokens =
        TokensOf(got.picks[0][static_cast<size_t>(list)], tied.context);
    const std::vector<bool> expected = tied.Expected(list);
    for (size_t t = 0; t < tokens.size(); ++t) {
      const size_t partition = t / static_cast<size_t>(program.block_tokens);
      ASSERT_EQ(tokens[t], expected[partition])
          << "token " << t << " of " << tied.context << ", partitions of "
          << program.block_tokens << ", list " << list;
    }
  }
}

TEST_P(SelectConformanceTest, TiesOfManyPartitionsGoToTheLowestIndex) {
  ForSeeds(60, [this](RandomSource& random, int num_threads) {
    const TiedCase tied(random);
    TestDevice device = Device(num_threads);
    ExpectReads(tied, RunSparse(device, tied.sparse));
  });
}

TEST_P(SelectConformanceTest, ForcedPartitionsAloneAreTheList) {
  ForSeeds(60, [this](RandomSource& random, int num_threads) {
    TiedCase tied(random);
    tied.sparse.programs[0].budget = {Amount::Unit::kTokens, 0};
    TestDevice device = Device(num_threads);
    ExpectReads(tied, RunSparse(device, tied.sparse));
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, SelectConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
