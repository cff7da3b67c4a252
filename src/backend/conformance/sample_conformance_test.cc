// The conformance suite, part five: Sample against a reference that sorts and
// adds up in float64, draw by draw and in the long run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/conformance/float_extremes.h"
#include "backend/conformance/sample_case.h"
#include "backend/conformance/seeded_test.h"

namespace winnow {
namespace {

using SampleConformanceTest = SeededTest;

int64_t AnyVocab(RandomSource& random) {
  // Below, at and above what a word, a warp and a block hold.
  return random.Chance(0.5)
             ? random.Between(1, 300)
             : random.Among<int64_t>({31, 32, 33, 512, 1023, 2047, 4096, 4129});
}

// Two roundings of float32, of a logit and of its logarithm, and weights that
// are true to 2e-7.
void ExpectLogprob(double got, double exact, const std::string& what) {
  if (exact == -kInfinity) {
    EXPECT_EQ(got, exact) << what;
  } else {
    EXPECT_NEAR(got, exact, 2e-6 + 1.2e-7 * std::abs(exact)) << what;
  }
}

// The highest logits as they came, ties to the lowest id.
void ExpectTop(const OracleCase& asked, const SampleAnswer& got,
               const std::vector<double>& logprobs) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < logprobs.size(); ++i) {
    if (logprobs[i] > -kInfinity) order.push_back(static_cast<int32_t>(i));
  }
  const auto logit = [&](int32_t id) {
    return asked.logits[static_cast<size_t>(id)];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
  order.resize(
      std::min(order.size(), static_cast<size_t>(asked.row.num_top_logprobs)));
  for (size_t i = 0; i < got.top_ids.size(); ++i) {
    const int32_t id = i < order.size() ? order[i] : -1;
    EXPECT_EQ(got.top_ids[i], id) << "top " << i;
    const double exact =
        id < 0 ? -kInfinity : logprobs[static_cast<size_t>(id)];
    ExpectLogprob(got.top_logprobs[i], exact, fmt::format("top {}", i));
  }
}

void ExpectRow(const OracleCase& asked, const SampleAnswer& got,
               int* num_close) {
  const OracleAnswer answer = AskOracle(asked);
  const DrawVerdict verdict = JudgeDraw(asked, answer, got.token_id);
  ASSERT_TRUE(verdict.is_right)
      << "token " << got.token_id << " temperature " << asked.row.temperature
      << " min_p " << asked.row.min_p << " top_k " << asked.row.top_k
      << " top_p " << asked.row.top_p;
  *num_close += verdict.is_close;
  const std::vector<double> logprobs = OracleLogprobs(asked.logits);
  ExpectLogprob(got.logprob,
                got.token_id < 0 ? -kInfinity
                                 : logprobs[static_cast<size_t>(got.token_id)],
                fmt::format("token {}", got.token_id));
  ExpectTop(asked, got, logprobs);
}

TEST_P(SampleConformanceTest, DrawsWhatTheReferenceDraws) {
  int num_rows = 0;
  int num_close = 0;
  ForSeeds(120, [&](RandomSource& random, int num_threads) {
    TestDevice device = Device(num_threads);
    const int64_t vocab = AnyVocab(random);
    const SampleLayout layout = {random.Between(0, 9), random.Between(0, 7)};
    std::vector<OracleCase> rows;
    for (int64_t i = random.Between(1, 6); i > 0; --i) {
      rows.push_back(RandomSampleCase(vocab, random));
      rows.back().row.num_top_logprobs =
          static_cast<int32_t>(random.Between(0, layout.max_top));
    }
    const auto tokens = SampleRows(device, rows, layout);
    for (size_t row = 0; row < rows.size(); ++row, ++num_rows) {
      SCOPED_TRACE(testing::Message() << "row=" << row << " vocab=" << vocab);
      ExpectRow(rows[row], tokens[row], &num_close);
    }
  });
  EXPECT_LE(num_close, num_rows / 10);  // the others leave no choice
}

TEST_P(SampleConformanceTest, DrawsFromLargeVocabularies) {
  int num_close = 0, num_rows = 0;
  ForSeeds(4, [&](RandomSource& random, int num_threads) {
    TestDevice device = Device(num_threads);
    const int64_t vocab = random.Among<int64_t>({8193, 32000, 65537, 151936});
    std::vector<OracleCase> rows;
    for (int i = 0; i < 2; ++i) {
      rows.push_back(RandomSampleCase(vocab, random));
      rows.back().row.num_top_logprobs = 3;
    }
    const auto tokens = SampleRows(device, rows, {random.Between(0, 9), 3});
    for (size_t row = 0; row < rows.size(); ++row) {
      SCOPED_TRACE(testing::Message() << "row=" << row << " vocab=" << vocab);
      ExpectRow(rows[row], tokens[row], &num_close);
      ++num_rows;
    }
  });
  EXPECT_LE(num_close, num_rows / 4);
}

TEST_P(SampleConformanceTest, TakesTheLargestVocabulary) {
  constexpr int32_t kLast = kMaxSampledVocab - 1;
  OracleCase greedy = CaseOf(std::vector<float>(kMaxSampledVocab, 1.0f));
  greedy.row.temperature = 0;
  greedy.row.repetition_penalty = 2;
  greedy.row.num_top_logprobs = 2;
  greedy.seen = {{kLast, 1}};
  greedy.bias = {{kLast, 90.0f}};
  OracleCase first = greedy;
  first.bias.clear();
  OracleCase any = CaseOf(greedy.logits);
  any.row.seed = 9;
  any.row.top_p = 0.5f;  // of equals, the first half
  OracleCase last = any;
  last.allowed.assign(kMaxSampledVocab, false);
  last.allowed[kLast] = true;
  TestDevice device = Device(2);
  const auto tokens = SampleRows(device, {greedy, first, any, last}, {0, 2});
  EXPECT_EQ(tokens[0].token_id, kLast);
  EXPECT_EQ(tokens[1].token_id, 0);
  EXPECT_TRUE(JudgeDraw(any, AskOracle(any), tokens[2].token_id).is_right);
  EXPECT_EQ(tokens[3].token_id, kLast);
  for (const SampleAnswer& token : tokens) {
    EXPECT_NEAR(token.logprob, -19 * std::log(2.0), 1e-5);
  }
  EXPECT_EQ(tokens[0].top_ids, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(tokens[2].top_ids, (std::vector<int32_t>{-1, -1}));
}

TEST_P(SampleConformanceTest, GreedyTakesTheFirstOfTheBest) {
  ForSeeds(40, [this](RandomSource& random, int num_threads) {
    TestDevice device = Device(num_threads);
    const int64_t vocab = random.Between(1, 20000);
    std::vector<OracleCase> rows;
    std::vector<int64_t> firsts;
    for (int64_t i = random.Between(1, 5); i > 0; --i) {
      std::vector<float> logits;
      for (int64_t t = 0; t < vocab; ++t) {
        logits.push_back(static_cast<float>(random.Normal()));
      }
      firsts.push_back(random.Between(0, vocab - 1));
      for (int64_t t = firsts.back(); t < vocab; ++t) {
        const bool is_best = t == firsts.back() || random.Chance(0.01);
        if (is_best) logits[static_cast<size_t>(t)] = 7.25f;
      }
      rows.push_back(CaseOf(std::move(logits), {.temperature = 0}));
    }
    const auto tokens = SampleRows(device, rows, {random.Between(0, 3), 0});
    for (size_t row = 0; row < rows.size(); ++row) {
      ASSERT_EQ(tokens[row].token_id, firsts[row]) << "row=" << row;
    }
  });
}

TEST_P(SampleConformanceTest, ARowIsItsOwnWhereverItStands) {
  ForSeeds(25, [this](RandomSource& random, int num_threads) {
    TestDevice device = Device(num_threads);
    const int64_t vocab = random.Among<int64_t>({7, 500, 5000, 17000});
    std::vector<OracleCase> rows;
    for (int64_t i = random.Between(2, 7); i > 0; --i) {
      rows.push_back(RandomSampleCase(vocab, random));
      rows.back().row.num_top_logprobs = 4;
    }
    const auto together = SampleRows(device, rows, {3, 4});
    EXPECT_EQ(SampleRows(device, rows, {0, 4}), together) << "once more";
    for (size_t row = 0; row < rows.size(); ++row) {
      ASSERT_EQ(SampleRows(device, {rows[row]}, {1, 4})[0], together[row])
          << "row=" << row;
    }
    std::vector<OracleCase> turned(rows.rbegin(), rows.rend());
    auto of_turned = SampleRows(device, turned, {0, 4});
    std::reverse(of_turned.begin(), of_turned.end());
    ASSERT_EQ(of_turned, together);
  });
}

TEST_P(SampleConformanceTest, SeedsReproduceAndDrawsDiffer) {
  TestDevice device = Device(2);
  const auto draws = [&](uint64_t seed) {
    std::vector<OracleCase> rows;
    for (uint64_t draw = 0; draw < 100; ++draw) {
      rows.push_back(
          CaseOf(std::vector<float>(1000, 0.0f), {.seed = seed, .draw = draw}));
    }
    std::vector<int32_t> ids;
    for (const auto& token : SampleRows(device, rows)) {
      ids.push_back(token.token_id);
    }
    return ids;
  };
  const auto num_same = [](const auto& a, const auto& b, size_t shift) {
    int count = 0;
    for (size_t i = shift; i < a.size(); ++i) count += a[i - shift] == b[i];
    return count;
  };
  const auto of_one = draws(1);
  EXPECT_EQ(draws(1), of_one);
  EXPECT_LE(num_same(of_one, draws(2), 0), 5);
  EXPECT_LE(num_same(of_one, draws(uint64_t{1} << 32), 0), 5);
  EXPECT_LE(num_same(of_one, of_one, 1), 5);
}

constexpr int kDraws = 6000;

// Many draws, one a row.
void ExpectDistribution(TestDevice& device, OracleCase asked, int num_draws) {
  const OracleAnswer answer = AskOracle(asked);
  ASSERT_EQ(answer.min_kept, answer.max_kept);
  std::vector<OracleCase> rows;
  for (int i = 0; i < num_draws; ++i) {
    asked.row.draw = static_cast<uint64_t>(i);
    rows.push_back(asked);
  }
  std::vector<int> counts(asked.logits.size(), 0);
  for (const SampleAnswer& token : SampleRows(device, rows)) {
    ++counts.at(static_cast<size_t>(token.token_id));
  }
  ExpectDrawnAs(answer.Probabilities(answer.min_kept), counts);
}

// Forty tokens, two of them equal.
OracleCase DistributionCase() {
  RandomSource random(41);
  OracleCase asked;
  for (int i = 0; i < 40; ++i) {
    asked.logits.push_back(static_cast<float>(1.5 * random.Normal()));
  }
  asked.logits[5] = asked.logits[30] = 2.5f;
  asked.row.seed = 1234567890123;
  return asked;
}

TEST_P(SampleConformanceTest, DrawsByProbability) {
  TestDevice device = Device(2);
  ExpectDistribution(device, DistributionCase(), kDraws);
  for (const float temperature : {0.3f, 2.0f, 50.0f}) {
    OracleCase asked = DistributionCase();
    asked.row.temperature = temperature;
    ExpectDistribution(device, asked, kDraws);
  }
  OracleCase equal = CaseOf(std::vector<float>(40, -7.5f));
  ExpectDistribution(device, equal, kDraws);
}

TEST_P(SampleConformanceTest, DrawsByProbabilityAmongTheKept) {
  TestDevice device = Device(2);
  const int num_draws = kDraws / GetParam().seed_step;
  OracleCase top_k = DistributionCase();
  top_k.row.top_k = 7;
  ExpectDistribution(device, top_k, num_draws);
  OracleCase top_p = DistributionCase();
  top_p.row.top_p = 0.8f;
  ExpectDistribution(device, top_p, num_draws);
  OracleCase min_p = DistributionCase();
  min_p.row.min_p = 0.1f;
  ExpectDistribution(device, min_p, num_draws);
  OracleCase all = DistributionCase();
  all.row = {.temperature = 1.4f,
             .top_p = 0.9f,
             .min_p = 0.02f,
             .repetition_penalty = 1.3f,
             .presence_penalty = 0.4f,
             .frequency_penalty = 0.2f,
             .top_k = 20,
             .seed = 5};
  all.seen = {{30, 2}, {1, 0}, {8, 1}, {5, 0}};
  all.bias = {{9, 2.0f}, {30, -0.5f}, {12, -100.0f}};
  all.allowed.assign(40, true);
  for (const size_t id : {0u, 5u, 31u, 32u}) all.allowed[id] = false;
  ExpectDistribution(device, all, num_draws);
}

INSTANTIATE_TEST_SUITE_P(Backends, SampleConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
