// Every selector against an oracle that was written from its paper's formulas
// in float64 and shares no code with ours; see README.md.
//
// "E n" are items of the golden checklist of the algorithms' sheets, "N n" of
// that of the natively sparse ones; cases.py says which case is for which.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "sparse/spec/selector.h"
#include "tests/oracle/expect_case.h"

namespace winnow {
namespace {

TestDevice Device(int num_threads, CpuKernels kernels = CpuKernels::kBest) {
  return TestDevice(
      MakeCpuBackend({.num_threads = num_threads, .kernels = kernels}));
}

// Cases by the shape that one step can have.
std::vector<std::vector<OracleCase>> Batches() {
  std::map<std::tuple<Dtype, int, int>, std::vector<OracleCase>> batches;
  for (const OracleCase& oracle : ReadOracleCases()) {
    const KvShape& shape = oracle.shape;
    batches[{shape.dtype, shape.num_kv_heads, shape.group_heads}].push_back(
        oracle);
  }
  std::vector<std::vector<OracleCase>> list;
  for (auto& [shape, cases] : batches) list.push_back(std::move(cases));
  return list;
}

class OracleTest : public testing::TestWithParam<OracleCase> {};

// E 1 to E 7, E 19, E 20, N 1 to N 8, N 10 to N 16, N 19: the picks as sets,
// the outputs within the tolerance, whatever the steps that the tokens came in
// (E 3, N 15).
TEST_P(OracleTest, ChoosesAndReadsAsThePaper) {
  RandomSource random(GetParam().seed);
  const SparseCase sparse = BatchOf({GetParam()}, random);
  const int long_chunk = GetParam().rows.end_position() > 1000 ? 500 : 1;
  const std::pair<CpuKernels, SparseRun> kRuns[] = {
      {CpuKernels::kScalar, {}},
      {CpuKernels::kBest, {.summarize_tokens = long_chunk}},
      {CpuKernels::kBest, {.summarize_tokens = 37, .select_rows = 5}}};
  for (const auto& [kernels, run] : kRuns) {
    TestDevice device = Device(2, kernels);
    ExpectCase(GetParam(), RunOracle(device, sparse, {GetParam()}, run), 0);
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, OracleTest,
                         testing::ValuesIn(ReadOracleCases()),
                         [](const auto& oracle) { return oracle.param.name; });

// E 18, N 18: all selectors in one ragged step, some sequences taken on late;
// nobody's choice depends on the neighbours, nor on where summaries lie.
TEST(OracleBatchTest, ChoosesTheSameInCompany) {
  for (const std::vector<OracleCase>& cases : Batches()) {
    RandomSource random(cases.size());
    const SparseCase sparse = BatchOf(cases, random);
    TestDevice device = Device(2);
    const SparseResult got = RunOracle(
        device, sparse, cases, {.summarize_tokens = 200, .select_rows = 64});
    int64_t row = 0;
    for (const OracleCase& oracle : cases) {
      ExpectCase(oracle, got, row);
      row += oracle.rows.num_tokens;
    }
  }
}

// E 1: a budget of everything is dense attention, bit for bit.
TEST(OracleBatchTest, ABudgetOfAllIsDense) {
  for (const std::vector<OracleCase>& cases : Batches()) {
    RandomSource random(cases.size());
    SparseCase sparse = BatchOf(cases, random);
    for (SelectProgram& program : sparse.programs) {
      program.budget = {Amount::Unit::kShare, 2.0};
      if (program.rule == Rule::kThreshold) program.rule = Rule::kTopK;
      if (program.rows.kind == SummaryRows::Kind::kNone) {
        program.forced.sink_tokens = 1 << 20;  // the window's budget
      }
    }
    TestDevice device = Device(2);
    const SparseResult got = RunSparse(device, sparse);
    const SparseResult dense =
        RunSparse(device, sparse, {.read_all_pages = true});
    EXPECT_TRUE(got.out.values == dense.out.values);
    EXPECT_TRUE(got.lse.values == dense.lse.values);
  }
}

// E 2: no key of a page scores more than the page, by the bounds that are
// kept, and these are those of the keys, whatever the steps (E 3).
TEST(OracleBatchTest, QuestKeepsTheBoundsOfItsKeys) {
  for (const OracleCase& oracle : ReadOracleCases()) {
    // All of its rows in one segment, the first. Of fp8: summary_row_test.
    if (!oracle.spec.starts_with("quest") || oracle.spec.ends_with("fp8") ||
        oracle.rows.end_position() > kSegmentTokens) {
      continue;
    }
    SCOPED_TRACE(oracle.name);
    RandomSource random(1);
    const SparseCase sparse = BatchOf({oracle}, random);
    TestDevice device = Device(1);
    SparseResult got = RunSparse(device, sparse, {.summarize_tokens = 11});
    const KvShape& shape = oracle.shape;
    const SummaryRows& rows = sparse.programs[0].rows;
    const int32_t first = 0;
    const uint32_t segment = 0;
    SummaryTable table;
    table.layout =
        MakeSummaryLayout(sparse.programs[0], shape.k_dim, shape.v_dim);
    table.rows = got.summaries.data();
    table.segments = {.first = MakeView(&first, Dtype::kInt32, {1}),
                      .entries = MakeView(&segment, Dtype::kUInt32, {1})};
    const int64_t num_pages = NumVisibleRows(rows, oracle.rows.end_position());
    for (int head = 0; head < shape.num_kv_heads; ++head) {
      for (int64_t page = 0; page < num_pages; ++page) {
        const std::byte* row = table.Row(0, head, 0, page);
        for (int c = 0; c < shape.k_dim; ++c) {
          double least = 1e9, greatest = -1e9;
          for (int t = 0; t < rows.tokens; ++t) {
            const double key =
                sparse.paged.keys(0).at(page * rows.tokens + t, head, c);
            least = std::min(least, key);
            greatest = std::max(greatest, key);
          }
          const int bytes = DtypeBytes(rows.dtype);
          ASSERT_EQ(LoadElement(rows.dtype, row + c * bytes), least);
          ASSERT_EQ(LoadElement(rows.dtype, row + (shape.k_dim + c) * bytes),
                    greatest);
        }
      }
    }
  }
}

// E 7: six ways to make one score of many heads', and six first choices.
TEST(OracleBatchTest, SixReductionsChooseSixBlocks) {
  constexpr int kBlock = 8;
  const ReductionTable table = ReadReductionTable();
  const auto num_blocks = static_cast<int>(table.logits[0].size());
  KvShape shape;
  shape.num_kv_heads = 2;
  shape.group_heads = table.group;
  // A block of its own, without a logit, stands behind the others.
  const int length = num_blocks * kBlock + 1;
  RandomSource random(1);
  SparseCase sparse(shape, {{length - 1, 1, 0}}, random);
  sparse.scale = 0.25f;
  std::ranges::fill(sparse.q.values, 0);
  TestArray keys = sparse.paged.keys(0);
  std::ranges::fill(keys.values, 0);
  for (int head = 0; head < shape.num_q_heads(); ++head) {
    sparse.q.values[static_cast<size_t>(head * shape.k_dim + head)] = 4;
    for (int t = 0; t < length - 1; ++t) {
      const auto at = static_cast<size_t>(
          (t * 2 + head / table.group) * shape.k_dim + head);
      keys.values[at] = table.logits[static_cast<size_t>(head)]
                                    [static_cast<size_t>(t / kBlock)];
    }
  }
  sparse.paged.SetKeysAndValues(0, keys, sparse.paged.values(0));
  const struct {
    Scope scope;
    HeadMap map;
    Reduction group;
  } kWays[] = {{Scope::kKvHead, HeadMap::kSoftmax, Reduction::kMax},
               {Scope::kKvHead, HeadMap::kSoftmax, Reduction::kSum},
               {Scope::kKvHead, HeadMap::kNone, Reduction::kMean},
               {Scope::kLayer, HeadMap::kNone, Reduction::kMean},
               {Scope::kLayer, HeadMap::kNone, Reduction::kMax},
               {Scope::kQHead, HeadMap::kNone, Reduction::kMax}};
  sparse.programs.resize(1);
  sparse.selectors = {0};
  sparse.prompt_tokens = {0};
  for (size_t i = 0; i < std::size(kWays); ++i) {
    SelectProgram& program = sparse.programs[0];
    program.rows = {SummaryRows::Kind::kMean, kBlock, kBlock, Dtype::kFloat32};
    program.block_tokens = kBlock;
    program.scope = kWays[i].scope;
    program.map = kWays[i].map;
    program.group = kWays[i].group;
    program.budget = {Amount::Unit::kTokens, kBlock};
    TestDevice device = Device(1);
    const SparseResult got = RunSparse(device, sparse);
    EXPECT_EQ(TextOf({got.picks[0][0]}, kBlock, length),
              table.first[i] == num_blocks - 1
                  ? fmt::format("{}-{}", num_blocks - 1, num_blocks)
                  : fmt::format("{},{}", table.first[i], num_blocks))
        << "way " << i;
  }
}

std::set<int64_t> BlocksOf(const std::vector<Pick>& list, int block) {
  std::set<int64_t> blocks;
  for (const Pick& pick : list) {
    for (int t = 0; t < kPageTokens; ++t) {
      if ((pick.tokens >> t & 1) == 0) continue;
      blocks.insert((int64_t{pick.page} * kPageTokens + t) / block);
    }
  }
  return blocks;
}

// E 19: how many picks are lost where keys and summaries are kept in bfloat16,
// measured and not assumed. The keys are the same numbers in both.
TEST(OracleBatchTest, BFloat16LosesAsManyPicksAsItsRoundingsSay) {
  int num_measured = 0;
  for (OracleCase& oracle : ReadOracleCases()) {
    if (oracle.bfloat16_recall == 0) continue;
    ++num_measured;
    const auto picks_in = [&](Dtype dtype) {
      oracle.dtype = oracle.shape.dtype = dtype;
      RandomSource random(1);
      TestDevice device = Device(2);
      return RunSparse(device, BatchOf({oracle}, random)).picks;
    };
    const auto exact = picks_in(Dtype::kFloat32);
    const auto rounded = picks_in(Dtype::kBFloat16);
    int64_t num_common = 0, num_picks = 0;
    for (size_t row = 0; row < exact.size(); ++row) {
      for (size_t list = 0; list < exact[row].size(); ++list) {
        const auto blocks = BlocksOf(exact[row][list], oracle.block);
        const auto others = BlocksOf(rounded[row][list], oracle.block);
        num_picks += std::ssize(blocks);
        num_common += std::ranges::count_if(
            blocks, [&](int64_t b) { return others.contains(b); });
      }
    }
    EXPECT_NEAR(
        static_cast<double>(num_common) / static_cast<double>(num_picks),
        oracle.bfloat16_recall, 1e-6)
        << oracle.name;
  }
  EXPECT_EQ(num_measured, 5);
}

// N 17: a key that is not a number leaves no score; what is forced is read, and
// the lowest of the rest, in the number that was asked for.
TEST(OracleBatchTest, NotANumberChoosesTheLowest) {
  std::vector<OracleCase> cases = ReadOracleCases();
  const auto found =
      std::ranges::find(cases, "infllm_local", &OracleCase::name);
  ASSERT_NE(found, cases.end());
  RandomSource random(1);
  SparseCase sparse = BatchOf({*found}, random);
  TestArray keys = sparse.paged.keys(0);
  // In a window of both levels that the row sees, and in every head.
  for (size_t i = 0; i < static_cast<size_t>(keys.dim(1) * keys.dim(2)); ++i) {
    keys.values[i] = std::numeric_limits<double>::quiet_NaN();
  }
  sparse.paged.SetKeysAndValues(0, keys, sparse.paged.values(0));
  TestDevice device = Device(1);
  const SparseResult got = RunSparse(device, sparse);
  EXPECT_EQ(TextOf(got.picks[2], found->block, 500), "0-1,14-15|0-1,14-15");
}

// E 20: a request of no tokens, and one of no rows, in a step with others.
TEST(OracleBatchTest, NoTokensAndNoRowsAreNothing) {
  std::vector<OracleCase> cases = ReadOracleCases();
  const auto found = std::ranges::find(cases, "mean_group", &OracleCase::name);
  ASSERT_NE(found, cases.end());
  OracleCase empty = *found, idle = *found;
  empty.rows = {0, 0, 0};
  idle.rows = {100, 0, 0};
  RandomSource random(1);
  const SparseCase sparse = BatchOf({empty, *found, idle}, random);
  TestDevice device = Device(2);
  ExpectCase(*found, RunSparse(device, sparse), 0);
}

// N 1: windows of 32 every 16 tokens, and of 128 every 64.
TEST(OracleBatchTest, WindowsAreCountedAsPublished) {
  const SummaryRows fine = {SummaryRows::Kind::kMean, 32, 16, Dtype::kFloat32};
  const SummaryRows coarse = {SummaryRows::Kind::kMean, 128, 64,
                              Dtype::kFloat32};
  constexpr int kCounts[][3] = {{31, 0, 0},   {32, 1, 0},  {47, 1, 0},
                                {48, 2, 0},   {127, 6, 0}, {128, 7, 1},
                                {191, 10, 1}, {192, 11, 2}};
  for (const auto& [length, num_fine, num_coarse] : kCounts) {
    EXPECT_EQ(NumVisibleRows(fine, length), num_fine) << length;
    EXPECT_EQ(NumVisibleRows(coarse, length), num_coarse) << length;
  }
}

std::string Refusal(std::string_view spec, int max_context_tokens) {
  const Result<Selector> selector =
      MakeSelector(spec, {.num_layers = 2,
                          .num_q_heads = 4,
                          .num_kv_heads = 2,
                          .head_dim = 16,
                          .kv_dtype = Dtype::kFloat32,
                          .max_context_tokens = max_context_tokens,
                          .windows = {}});
  return selector.ok() ? "" : selector.error().message;
}

// E 6, N 9: a budget below what is forced, and one above the context. Which of
// too many forced blocks survive is never decided: such a SPEC is refused.
TEST(OracleBatchTest, BudgetsThatCannotBeAreRefused) {
  EXPECT_NE(Refusal("quest:budget=32,sink=16,recent=16,dense_layers=none", 512)
                .find("at least 48 tokens"),
            std::string::npos);
  EXPECT_NE(Refusal("infllm-v2:budget=2112", 1 << 16).find("at least 2176"),
            std::string::npos);
  EXPECT_EQ(Refusal("infllm-v2:budget=2176", 1 << 16), "");
  EXPECT_NE(Refusal("moba:block=32,budget=0", 512).find("at least 32"),
            std::string::npos);
  EXPECT_NE(Refusal("mean:budget=1024", 512).find("at most the context"),
            std::string::npos);
}

}  // namespace
}  // namespace winnow
