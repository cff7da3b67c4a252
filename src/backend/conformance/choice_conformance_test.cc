// The conformance suite: which partitions Select chooses where scores are
// spread badly. One query and one channel make every score a key's number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "backend/conformance/listed_tokens.h"
#include "backend/conformance/seeded_test.h"
#include "backend/conformance/select_oracle.h"

namespace winnow {
namespace {

constexpr double kInfiniteScore = std::numeric_limits<double>::infinity();

// How scores are spread over partitions.
enum class Spread {
  kEqual,
  kTwoValues,
  kFewSteps,
  kNormal,
  kAscending,
  kDescending,
  kAlternatingSigns,
  kDenormal,
  kAnyExponent,
  kOneOutlier,
  kOneRunOfTheBest,
  kFewFinite,
  kInfinitiesAndNan,
  kCount
};

double DrawScore(Spread spread, int64_t i, int64_t count,
                 RandomSource& random) {
  const double position =
      static_cast<double>(i) / static_cast<double>(count) + 1;
  switch (spread) {
    case Spread::kEqual:
      return -3.5;
    case Spread::kTwoValues:
      return random.Among({0.0, -0.0, 7.0});
    case Spread::kFewSteps:
      return std::round(random.Normal() * 8) / 8;
    case Spread::kAscending:
      return position;
    case Spread::kDescending:
      return -position;
    case Spread::kAlternatingSigns:
      return (i % 2 == 0 ? 1 : -1) * std::abs(random.Normal());
    case Spread::kDenormal:
      return random.Normal() * 1e-40;
    case Spread::kAnyExponent:
      return random.Among({1, -1}) *
             std::exp2(static_cast<double>(random.Between(-140, 120)));
    case Spread::kOneOutlier:
      return i == count / 3 ? random.Among({3e38, -3e38}) : random.Normal();
    case Spread::kOneRunOfTheBest:
      return random.Normal() + (i * 32 / count == 5 ? 10 : 0);
    case Spread::kFewFinite:
      return random.Chance(0.01) ? random.Normal() : -kInfiniteScore;
    case Spread::kInfinitiesAndNan:
      return random.Among(
          {kInfiniteScore, -kInfiniteScore, double{NAN}, 3e38, -3e38});
    case Spread::kNormal:
    case Spread::kCount:
      break;
  }
  return random.Normal();
}

// All requests, and all heads of each, have the same scores.
class SpreadCase {
 public:
  SpreadCase(Spread spread, RandomSource& random, int num_requests = 1,
             int num_heads = 1, int64_t most_position = 9999)
      : sparse(KvShape{.group_heads = num_heads},
               std::vector<RequestRows>(
                   static_cast<size_t>(num_requests),
                   {static_cast<int32_t>(random.Between(900, most_position)), 1,
                    0}),
               random),
        context(sparse.paged.requests()[0].end_position()) {
    SelectProgram program;
    program.scope = Scope::kQHead;
    program.group = Reduction::kMax;
    program.block_tokens = random.Among({1, 1, 1, 8, 32, 64});
    const int block = program.block_tokens;
    program.rows = block == 1 ? SummaryRows{SummaryRows::Kind::kKeys, 1, 1,
                                            Dtype::kFloat32}
                              : SummaryRows{SummaryRows::Kind::kMinMax, block,
                                            block, Dtype::kFloat32};
    program.forced = {.sink_tokens = random.Among({0, 4}) * block,
                      .recent_tokens = random.Among({0, 100}),
                      .inside_budget = false};
    const std::vector<bool> forced = OracleForced(program, context);
    const int64_t num_free = std::ranges::count(forced, false);
    const int64_t count = std::clamp<int64_t>(
        num_requests > 1
            // As many keys are left as a block has threads, or more.
            ? random.Among({int64_t{64}, int64_t{200}, int64_t{256},
                            random.Between(1, num_free)})
            : random.Among({int64_t{1}, int64_t{64}, int64_t{512}, int64_t{513},
                            num_free / 2, num_free - 1,
                            random.Between(1, num_free)}),
        1, num_free);
    program.budget = {Amount::Unit::kTokens,
                      static_cast<double>(count * block)};
    sparse.programs = {program};
    sparse.selectors.assign(static_cast<size_t>(num_requests), 0);
    sparse.prompt_tokens = sparse.selectors;
    DrawScores(spread, std::ssize(forced), random);
    MakeExpected(forced, count);
  }

  SparseCase sparse;
  int64_t context;
  std::vector<double> scores;  // by partition
  std::vector<bool> expected;  // likewise: what is read

 private:
  void DrawScores(Spread spread, int64_t num_partitions, RandomSource& random) {
    const int64_t block = sparse.programs[0].block_tokens;
    const auto k_dim = static_cast<size_t>(sparse.paged.shape().k_dim);
    std::ranges::fill(sparse.q.values, 0.0);
    for (size_t at = 0; at < sparse.q.values.size(); at += k_dim) {
      sparse.q.values[at] = 1;
    }
    TestArray keys = sparse.paged.keys(0);
    std::ranges::fill(keys.values, 0.0);
    for (int64_t i = 0; i < num_partitions; ++i) {
      double score = RoundTo(Dtype::kFloat32,
                             DrawScore(spread, i, num_partitions, random));
      // A bound is of two products, of which one is with zero.
      if (block > 1) {
        score = std::isnan(score) ? 0 : std::clamp(score, -1e30, 1e30);
      }
      scores.push_back(score);
      const int64_t end = std::min((i + 1) * block, context);
      for (int64_t token = i * block; token < end; ++token) {
        keys.values[static_cast<size_t>(token) * k_dim] = score;
      }
    }
    for (size_t i = 0; i < sparse.selectors.size(); ++i) {
      sparse.paged.SetKeysAndValues(i, keys, sparse.paged.values(i));
    }
  }

  void MakeExpected(const std::vector<bool>& forced, int64_t count) {
    expected = forced;
    std::vector<size_t> free;
    for (size_t i = 0; i < forced.size(); ++i) {
      if (!forced[i]) free.push_back(i);
    }
    std::ranges::stable_sort(free, std::greater<>(), [this](size_t i) {
      return std::isnan(scores[i]) ? -kInfiniteScore : scores[i];
    });
    for (int64_t i = 0; i < count; ++i) {
      expected[free[static_cast<size_t>(i)]] = true;
    }
  }
};

class ChoiceConformanceTest : public SeededTest {
 protected:
  // Each of the case's lists names what is expected.
  void Check(Spread spread, const SpreadCase& spread_case, int num_threads) {
    const SparseCase& sparse = spread_case.sparse;
    TestDevice device = Device(num_threads);
    const SparseResult got = RunSparse(device, sparse);
    ASSERT_EQ(got.picks.size(), sparse.selectors.size());
    const auto num_heads =
        static_cast<size_t>(sparse.paged.shape().num_q_heads());
    for (const auto& lists : got.picks) {
      ASSERT_EQ(lists.size(), num_heads);
      for (const auto& list : lists) {
        CheckList(spread, spread_case, list);
        if (HasFatalFailure()) return;
      }
    }
  }

 private:
  static void CheckList(Spread spread, const SpreadCase& spread_case,
                        const std::vector<Pick>& list) {
    const std::vector<bool> tokens = TokensOf(list, spread_case.context);
    const auto block =
        static_cast<size_t>(spread_case.sparse.programs[0].block_tokens);
    for (size_t t = 0; t < tokens.size(); ++t) {
      ASSERT_EQ(tokens[t], spread_case.expected[t / block])
          << "token " << t << " of " << tokens.size() << ", partitions of "
          << block << ", spread " << static_cast<int>(spread) << ", score "
          << spread_case.scores[t / block];
    }
  }
};

Spread AnySpread(RandomSource& random) {
  return static_cast<Spread>(
      random.Between(0, static_cast<int64_t>(Spread::kCount) - 1));
}

TEST_P(ChoiceConformanceTest, TheBestHoweverScoresAreSpread) {
  ForSeeds(150, [this](RandomSource& random, int num_threads) {
    const Spread spread = AnySpread(random);
    Check(spread, SpreadCase(spread, random), num_threads);
  });
}

// Several times the lists that a device chooses at a time.
TEST_P(ChoiceConformanceTest, TheBestOfEachOfManyLists) {
  ForSeeds(4, [this](RandomSource& random, int num_threads) {
    const Spread spread = AnySpread(random);
    const int num_requests = 67 / GetParam().seed_step;
    Check(spread, SpreadCase(spread, random, num_requests, 16, 4600),
          num_threads);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, ChoiceConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
