// The conformance suite, part thirteen: learned gates and thresholds against
// float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/conformance/host_summaries.h"
#include "backend/conformance/listed_tokens.h"
#include "backend/conformance/seeded_test.h"
#include "backend/conformance/select_oracle.h"

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;
using Numbers = std::vector<BoundedScore>;  // by channel

constexpr double kSumSlack = 1e-5;  // of the sum of absolute terms

bool HasFeature(uint32_t features, SelectFeature feature) {
  return (features & static_cast<uint32_t>(feature)) != 0;
}

SelectProgram GateProgram(Dtype kv_dtype, RandomSource& random) {
  SelectProgram program;
  program.block_tokens = random.Among({8, 16, 32, 64, 128});
  program.rows = {Kind::kGate, program.block_tokens, program.block_tokens,
                  random.Chance(0.5) ? Dtype::kFloat32 : kv_dtype};
  program.map = random.Chance(0.8) ? HeadMap::kSoftmax : HeadMap::kNone;
  program.open_scores_zero = random.Chance(0.7);
  program.forced = {.sink_tokens = random.Among({0, 0, 1, 40}),
                    .recent_tokens = random.Among({0, 0, 33}),
                    .inside_budget = random.Chance(0.3)};
  program.budget =
      random.Chance(0.3)
          ? Amount{Amount::Unit::kShare, 0.25}
          : Amount{Amount::Unit::kTokens, random.Among({0.0, 64.0, 256.0})};
  if (random.Chance(0.4)) {
    program.rule = Rule::kThreshold;
    program.threshold = random.Among({0.01f, 0.05f, 0.2f});
  }
  program.dense_len = random.Among({0, 0, 100});
  return program;
}

TestArray Weights(std::vector<int64_t> shape, RandomSource& random) {
  TestArray array(Dtype::kFloat32, std::move(shape));
  const double size = 1 / std::sqrt(static_cast<double>(array.dim(1)));
  for (double& x : array.values) {
    x = RoundTo(Dtype::kFloat32, random.Normal() * size);
  }
  return array;
}

TestGate RandomGate(const KvShape& shape, RandomSource& random) {
  const int64_t heads = shape.num_kv_heads, dim = shape.k_dim;
  TestGate gate = {.q = Weights({heads, shape.group_heads * dim, dim}, random),
                   .k = Weights({heads, 3 * dim, dim}, random),
                   .q_norm = {},
                   .k_norm = {}};
  if (random.Chance(0.5)) {
    gate.q_norm = RandomArray(Dtype::kFloat32, {dim}, random);
    gate.k_norm = RandomArray(Dtype::kFloat32, {dim}, random);
  }
  return gate;
}

// The last one decodes behind half of max_position at least: for prompts gates
// do not choose.
std::vector<RequestRows> GateRequests(int max_position, RandomSource& random) {
  std::vector<RequestRows> requests = RandomRequests(random, max_position);
  RequestRows decode;
  decode.first_position =
      static_cast<int32_t>(random.Between(max_position / 2, max_position));
  decode.num_tokens = static_cast<int32_t>(random.Between(1, 5));
  requests.push_back(decode);
  return requests;
}

// Requests that gates, other selectors and nobody choose for.
SparseCase GateCase(int max_position, uint32_t features, RandomSource& random) {
  KvShape shape = RandomKvShape(random);
  SparseCase sparse(shape, GateRequests(max_position, random), random);
  const int64_t num_programs = random.Between(1, 3);
  sparse.gates.resize(static_cast<size_t>(num_programs));
  for (int64_t i = 0; i < num_programs; ++i) {
    if (i > 0 && random.Chance(0.3)) {
      sparse.programs.push_back(RandomProgram(shape.dtype, features, random));
      continue;
    }
    sparse.programs.push_back(GateProgram(shape.dtype, random));
    sparse.gates[static_cast<size_t>(i)] = RandomGate(shape, random);
  }
  for (const RequestRows& rows : sparse.paged.requests()) {
    sparse.selectors.push_back(
        static_cast<int32_t>(random.Between(-1, num_programs - 1)));
    sparse.prompt_tokens.push_back(rows.first_position + rows.num_prefill_rows);
  }
  sparse.selectors.back() = 0;  // a gate's
  sparse.q_pre = RandomArray(shape.dtype, sparse.q.shape, random);
  if (random.Chance(0.3)) sparse.rotary_dim = shape.k_dim / 4 * 2;
  if (random.Chance(0.3)) sparse.rope_scale = 1.25f;
  return sparse;
}

// Written from the comments of select_program.h and gate_weights.h, and not
// from a backend.
class GateOracle {
 public:
  GateOracle(const SparseCase& sparse, size_t program)
      : sparse_(sparse), gate_(sparse.gates[program]) {}

  // Row j of a summary, before it is rounded.
  Numbers Row(size_t request, int head, int64_t j, int tokens) const {
    const int dim = sparse_.paged.shape().k_dim;
    const auto size = static_cast<size_t>(dim);
    Numbers pooled(3 * size);
    for (int64_t t = j * tokens; t < (j + 1) * tokens; ++t) {
      Numbers key;
      for (int c = 0; c < dim; ++c) {
        key.push_back({sparse_.paged.keys(request).at(t, head, c), 0});
      }
      const double scale = sparse_.rope_scale;
      key = Turn(key, t, -1, 1 / scale);
      for (size_t c = 0; c < size; ++c) {
        const bool is_first = t == j * tokens;
        BoundedScore& most = pooled[c];
        BoundedScore& least = pooled[size + c];
        BoundedScore& mean = pooled[2 * size + c];
        if (is_first || key[c].value > most.value) most.value = key[c].value;
        if (is_first || key[c].value < least.value) least.value = key[c].value;
        mean.value += key[c].value / tokens;
        for (BoundedScore* of : {&most, &least, &mean}) {
          of->slack = std::max(of->slack, key[c].slack + 1e-7);
        }
      }
    }
    return Project(pooled, gate_.k, head, gate_.k_norm, j * tokens);
  }

  Numbers Query(int64_t row, int64_t position, int head) const {
    const KvShape& shape = sparse_.paged.shape();
    Numbers inputs;
    for (int i = 0; i < shape.group_heads; ++i) {
      for (int c = 0; c < shape.k_dim; ++c) {
        inputs.push_back(
            {sparse_.q_pre.at(row, head * shape.group_heads + i, c), 0});
      }
    }
    return Project(inputs, gate_.q, head, gate_.q_norm, position);
  }

 private:
  // Pairs turned by their angle at a position, or back, and scaled.
  Numbers Turn(const Numbers& x, int64_t position, int direction,
               double scale) const {
    const int half = (sparse_.rotary_dim > 0 ? sparse_.rotary_dim
                                             : sparse_.paged.shape().k_dim) /
                     2;
    Numbers turned = x;
    for (int i = 0; i < half; ++i) {
      // The float32 angle is the definition.
      const auto angle = static_cast<double>(static_cast<float>(position) *
                                             std::exp2(static_cast<float>(-i)));
      const double cosine = std::cos(angle), sine = direction * std::sin(angle);
      const auto first = static_cast<size_t>(i);
      const auto second = static_cast<size_t>(half + i);
      const BoundedScore a = x[first], b = x[second];
      const double slack =
          a.slack + b.slack + 1e-6 * (std::abs(a.value) + std::abs(b.value));
      turned[first] = {(a.value * cosine - b.value * sine) * scale,
                       slack * scale};
      turned[second] = {(b.value * cosine + a.value * sine) * scale,
                        slack * scale};
    }
    return turned;
  }

  Numbers Project(const Numbers& inputs, const TestArray& weights, int head,
                  const TestArray& norm, int64_t position) const {
    const int dim = sparse_.paged.shape().k_dim;
    Numbers out(static_cast<size_t>(dim));
    double squares = 0, off = 0;
    for (int c = 0; c < dim; ++c) {
      BoundedScore& sum = out[static_cast<size_t>(c)];
      for (size_t i = 0; i < inputs.size(); ++i) {
        const double weight = weights.at(head, static_cast<int64_t>(i), c);
        sum.value += inputs[i].value * weight;
        sum.slack += (inputs[i].slack + kSumSlack * std::abs(inputs[i].value)) *
                     std::abs(weight);
      }
      squares += sum.value * sum.value;
      off += std::abs(sum.value) * sum.slack;
    }
    if (!norm.values.empty()) {
      const double mean =
          squares / dim + static_cast<double>(GateWeights::kNormEpsilon);
      const double relative = off / (mean * dim) + 1e-6;
      for (int c = 0; c < dim; ++c) {
        BoundedScore& x = out[static_cast<size_t>(c)];
        const double by = norm.values[static_cast<size_t>(c)] / std::sqrt(mean);
        x = {x.value * by,
             (x.slack + std::abs(x.value) * relative) * std::abs(by)};
      }
    }
    return Turn(out, position, 1, sparse_.rope_scale);
  }

  const SparseCase& sparse_;
  const TestGate& gate_;
};

// A summary row as it was left.
std::vector<double> KeptRow(const std::byte* row, Dtype dtype, int dim) {
  std::vector<double> numbers;
  for (int c = 0; c < dim; ++c) {
    numbers.push_back(LoadElement(dtype, row + c * DtypeBytes(dtype)));
  }
  return numbers;
}

// f(request, program, KV head, row) for each row of a gate's summaries.
template <typename F>
void ForEachGateRow(const SparseCase& sparse, F&& f) {
  for (size_t r = 0; r < sparse.paged.requests().size(); ++r) {
    const int index = sparse.selectors[r];
    if (index < 0) continue;
    const auto program = static_cast<size_t>(index);
    const SummaryRows& rows = sparse.programs[program].rows;
    if (rows.kind != Kind::kGate) continue;
    const int64_t context = sparse.paged.requests()[r].end_position();
    for (int head = 0; head < sparse.paged.shape().num_kv_heads; ++head) {
      for (int64_t j = 0; j < NumVisibleRows(rows, context); ++j) {
        f(r, program, head, j);
      }
    }
  }
}

// What a request's gate keeps of its keys, as a device has made it: rows of
// each KV head.
using KeptRows = std::vector<std::vector<std::vector<double>>>;

void KeepRows(TestDevice& device, const SparseCase& sparse,
              std::span<const LayerSelector> selectors,
              std::vector<KeptRows>& kept) {
  const KvShape& shape = sparse.paged.shape();
  kept.assign(sparse.paged.requests().size(),
              KeptRows(static_cast<size_t>(shape.num_kv_heads)));
  std::vector<std::unique_ptr<HostSummaries>> tables(selectors.size());
  ForEachGateRow(sparse, [&](size_t r, size_t program, int head, int64_t j) {
    if (tables[program] == nullptr) {
      tables[program] =
          std::make_unique<HostSummaries>(device, selectors[program].summaries);
    }
    const std::byte* row =
        tables[program]->table.Row(static_cast<int>(r), head, 0, j);
    kept[r][static_cast<size_t>(head)].push_back(
        KeptRow(row, sparse.programs[program].rows.dtype, shape.k_dim));
  });
}

// What a gate says of the rows that a row of the step sees, by its own keys.
std::vector<BoundedScore> GateScores(
    const SparseCase& sparse, const SelectProgram& program,
    const Numbers& query, const std::vector<std::vector<double>>& rows,
    int64_t context) {
  std::vector<BoundedScore> scores;
  for (int64_t j = 0; j < NumVisibleRows(program.rows, context); ++j) {
    BoundedScore& score = scores.emplace_back();
    for (size_t c = 0; c < query.size(); ++c) {
      const double key = rows[static_cast<size_t>(j)][c];
      score.value += query[c].value * key;
      score.slack += (query[c].slack + kSumSlack * std::abs(query[c].value)) *
                     std::abs(key);
    }
  }
  if (program.map == HeadMap::kNone) return scores;
  double sum = 0, off = 0;
  for (const BoundedScore& score : scores) {
    sum += std::exp(score.value * sparse.scale);
    off = std::max(off, score.slack * sparse.scale);
  }
  if (program.open_scores_zero && context % program.block_tokens != 0) ++sum;
  for (BoundedScore& score : scores) {
    const double value = std::exp(score.value * sparse.scale) / sum;
    score = {value, value * (std::expm1(2 * off) + 1e-5) + 1e-37};
  }
  return scores;
}

// What is read is forced, or scores no less than what is not, or more than the
// threshold. A partition without a score is never worth reading.
void ExpectGateChoice(const SelectProgram& program, int64_t context,
                      const std::vector<bool>& tokens,
                      const std::vector<BoundedScore>& scores) {
  const ListedPartitions partitions =
      ExpectPartitions(program, context, tokens);
  if (program.rule != Rule::kThreshold) {
    ExpectBudget(program, context, partitions);
    return ExpectBest(partitions, scores);
  }
  const auto threshold = double{program.threshold};
  for (const size_t b : partitions.chosen) {
    ASSERT_GT(scores[b].value + scores[b].slack, threshold) << b;
  }
  for (const size_t b : partitions.left) {
    ASSERT_TRUE(b >= scores.size() ||
                scores[b].value - scores[b].slack <= threshold)
        << b;
  }
}

class GateConformanceTest : public SeededTest {
 protected:
  uint32_t Features() {
    return Device(1).backend().attributes().select_features;
  }
  void SetUp() override {
    if (!HasFeature(Features(), SelectFeature::kGate)) {
      GTEST_SKIP() << "the device has no gates";
    }
  }
};

TEST_P(GateConformanceTest, KeysAreThoseOfTheGate) {
  ForSeeds(60, [this](RandomSource& random, int num_threads) {
    const SparseCase sparse = GateCase(300, 0, random);
    TestDevice device = Device(num_threads);
    std::vector<KeptRows> kept;
    SparseRun run;
    run.summarize_tokens = static_cast<int>(random.Between(1, 300));
    run.on_summaries = [&](std::span<const LayerSelector> selectors,
                           const LayerCache&) {
      KeepRows(device, sparse, selectors, kept);
    };
    RunSparse(device, sparse, run);
    ForEachGateRow(sparse, [&](size_t r, size_t program, int head, int64_t j) {
      const SummaryRows& rows = sparse.programs[program].rows;
      const Numbers expected =
          GateOracle(sparse, program).Row(r, head, j, rows.tokens);
      const std::vector<double>& got =
          kept[r][static_cast<size_t>(head)][static_cast<size_t>(j)];
      for (size_t c = 0; c < expected.size() && !HasFailure(); ++c) {
        const auto [value, slack] = expected[c];
        EXPECT_NEAR(got[c], value,
                    slack + HalfUnitOf(rows.dtype) * std::abs(value) + 1e-7)
            << "request " << r << " head " << head << " row " << j
            << " channel " << c;
      }
    });
  });
}

TEST_P(GateConformanceTest, ChoosesTheBest) {
  ForSeeds(120, [this](RandomSource& random, int num_threads) {
    const SparseCase sparse = GateCase(400, Features(), random);
    TestDevice device = Device(num_threads);
    std::vector<KeptRows> kept;
    SparseRun run;
    run.on_summaries = [&](std::span<const LayerSelector> selectors,
                           const LayerCache&) {
      KeepRows(device, sparse, selectors, kept);
    };
    const SparseResult got = RunSparse(device, sparse, run);
    ForEachRow(sparse, [&](size_t r, int32_t t, int64_t row, int64_t context) {
      const auto& lists = got.picks[static_cast<size_t>(row)];
      const SelectProgram* program = sparse.ProgramOf(r, t);
      if (program == nullptr) {
        ASSERT_TRUE(lists.size() == 1 && IsEveryPage(lists[0]));
        return;
      }
      if (program->rows.kind != Kind::kGate || HasFailure()) return;
      ASSERT_EQ(std::ssize(lists), sparse.paged.shape().num_kv_heads);
      const GateOracle oracle(sparse, static_cast<size_t>(sparse.selectors[r]));
      double num_read = 0;
      for (size_t head = 0; head < lists.size(); ++head) {
        SCOPED_TRACE(testing::Message() << "row " << row << " head " << head);
        const std::vector<bool> tokens = TokensOf(lists[head], context);
        num_read += static_cast<double>(std::ranges::count(tokens, true));
        ExpectGateChoice(
            *program, context, tokens,
            GateScores(sparse, *program,
                       oracle.Query(row, context - 1, static_cast<int>(head)),
                       kept[r][head], context));
      }
      EXPECT_NEAR(
          got.read_shares.values[static_cast<size_t>(row)],
          0.25 + num_read / static_cast<double>(std::ssize(lists) * context),
          1e-6);
    });
  });
}

// Neither on the steps that the tokens came in, nor on the rows that lists are
// made with, nor on where pages lie.
TEST_P(GateConformanceTest, BitsDoNotDependOnSteps) {
  ForSeeds(30, [this](RandomSource& random, int num_threads) {
    SparseCase sparse = GateCase(1200, Features(), random);
    TestDevice device = Device(1);
    const SparseResult expected = RunSparse(device, sparse);
    sparse.paged.Shuffle(random);
    for (const int chunk : {1 + static_cast<int>(random.Between(0, 30)), 64}) {
      TestDevice other = Device(num_threads);
      const SparseResult got = RunSparse(
          other, sparse, {.summarize_tokens = chunk, .select_rows = chunk});
      EXPECT_TRUE(got.summaries == expected.summaries);
      EXPECT_TRUE(got.picks == expected.picks);
      EXPECT_TRUE(got.read_shares.values == expected.read_shares.values);
      EXPECT_TRUE(got.out.values == expected.out.values);
    }
  });
}

// A threshold between what the best block has of a softmax with the open block
// and of one without.
TEST_P(GateConformanceTest, AnOpenBlockTakesItsShareOfTheSoftmax) {
  ForSeeds(20, [this](RandomSource& random, int num_threads) {
    KvShape shape = RandomKvShape(random);
    shape.dtype = Dtype::kFloat32;
    const auto last = static_cast<int32_t>(16 * random.Between(1, 9));
    SparseCase sparse(
        shape, {{last + static_cast<int32_t>(random.Between(0, 14)), 1, 0}},
        random);
    SelectProgram program;
    program.block_tokens = 16;
    program.rows = {Kind::kGate, 16, 16, Dtype::kFloat32};
    program.map = HeadMap::kSoftmax;
    program.rule = Rule::kThreshold;
    sparse.programs = {program};
    sparse.gates = {RandomGate(shape, random)};
    sparse.selectors = {0};
    sparse.prompt_tokens = {0};
    sparse.q_pre = RandomArray(shape.dtype, sparse.q.shape, random);
    TestDevice device = Device(num_threads);
    std::vector<KeptRows> kept;
    SparseRun run;
    run.on_summaries = [&](std::span<const LayerSelector> selectors,
                           const LayerCache&) {
      KeepRows(device, sparse, selectors, kept);
    };
    RunSparse(device, sparse, run);
    const int64_t context = sparse.paged.requests()[0].end_position();
    const Numbers query =
        GateOracle(sparse, 0).Query(0, context - 1, /*head=*/0);
    const auto share = [&](bool open) {
      program.open_scores_zero = open;
      const std::vector<BoundedScore> scores =
          GateScores(sparse, program, query, kept[0][0], context);
      return std::ranges::max(scores, {}, &BoundedScore::value).value;
    };
    const double threshold = std::sqrt(share(true) * share(false));
    sparse.programs[0].threshold = static_cast<float>(threshold);
    for (const bool open : {true, false}) {
      sparse.programs[0].open_scores_zero = open;
      const SparseResult got = RunSparse(device, sparse);
      ExpectGateChoice(
          sparse.programs[0], context, TokensOf(got.picks[0][0], context),
          GateScores(sparse, sparse.programs[0], query, kept[0][0], context));
    }
  });
}

// Of any summaries, scopes and blocks: what scores more is read, also where a
// layer keeps its lists for those after it.
TEST_P(GateConformanceTest, ThresholdsLetInWhatScoresMore) {
  constexpr auto kClusters = static_cast<uint32_t>(SelectFeature::kClusters);
  ForSeeds(60, [this](RandomSource& random, int num_threads) {
    SparseCase sparse = RandomSparseCase(random, 400, Features() & ~kClusters);
    for (SelectProgram& program : sparse.programs) {
      program.rule = Rule::kThreshold;
      program.open_scores_zero = random.Chance(0.5);
      const bool maps = program.map != HeadMap::kNone;
      program.threshold = maps ? random.Among({0.01f, 0.1f, 0.3f})
                               : random.Among({-1.0f, 0.0f, 2.0f});
    }
    TestDevice device = Device(num_threads);
    const SparseResult got = RunSparse(device, sparse);
    ForEachRow(sparse, [&](size_t r, int32_t t, int64_t row, int64_t context) {
      const SelectProgram* program = sparse.ProgramOf(r, t);
      // A scope's rows are many; the oracle is slow.
      if (program == nullptr || (row % 3 != 0 && row > 4)) return;
      const auto& lists = got.picks[static_cast<size_t>(row)];
      ASSERT_EQ(std::ssize(lists), sparse.NumLists(*program));
      for (int list = 0; list < sparse.NumLists(*program); ++list) {
        SCOPED_TRACE(testing::Message() << "row " << row << " list " << list);
        ExpectGateChoice(*program, context,
                         TokensOf(lists[static_cast<size_t>(list)], context),
                         OracleScores(sparse, *program, r, row, context, list));
      }
    });
    const PickLists lists = MakeKeptLists(device, sparse);
    RunSparse(device, sparse, {.keeps_lists = true, .lists = lists});
    const SparseResult later = RunSparse(
        device, sparse, {.layer = 1, .reuse_layer = 0, .lists = lists});
    EXPECT_TRUE(later.picks == got.picks);
    EXPECT_TRUE(later.read_shares.values == got.read_shares.values);
    EXPECT_TRUE(later.out.values == got.out.values);
  });
}

TEST_P(GateConformanceTest, PicksGrowWithTheBudgetAndAsThresholdsFall) {
  ForSeeds(12, [this](RandomSource& random, int num_threads) {
    SparseCase sparse = GateCase(700, Features(), random);
    const double budgets[] = {0, 64, 128, 300, 900};
    const float thresholds[] = {0.5f, 0.2f, 0.05f, 0.01f, 0};
    ListedTokens before;
    for (size_t i = 0; i < std::size(budgets); ++i) {
      for (SelectProgram& program : sparse.programs) {
        program.budget = {Amount::Unit::kTokens, budgets[i]};
        program.threshold = thresholds[i];
      }
      TestDevice device = Device(num_threads);
      ExpectGrown(sparse, RunSparse(device, sparse), before);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, GateConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
