// The conformance suite, part seven: the scores that Select chooses by.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/conformance/listed_tokens.h"
#include "backend/conformance/seeded_test.h"
#include "backend/conformance/select_oracle.h"

namespace winnow {
namespace {

class ScoresConformanceTest : public SeededTest {
 protected:
  bool KnowsScores() {
    return (Device(1).backend().attributes().select_features &
            static_cast<uint32_t>(SelectFeature::kScores)) != 0;
  }

  // Rows far enough behind the beginning for clusters to be chosen among.
  SparseCase AnyCase(RandomSource& random) {
    std::vector<RequestRows> requests(
        static_cast<size_t>(random.Between(1, 2)));
    for (RequestRows& rows : requests) {
      rows.first_position = static_cast<int32_t>(random.Between(0, 900));
      rows.num_tokens = static_cast<int32_t>(random.Between(1, 6));
    }
    SparseCase sparse(RandomKvShape(random), requests, random);
    for (const RequestRows& rows : requests) {
      sparse.selectors.push_back(static_cast<int32_t>(sparse.programs.size()));
      SelectProgram& program = sparse.programs.emplace_back(RandomProgram(
          sparse.paged.shape().dtype,
          Device(1).backend().attributes().select_features, random));
      if (program.rows.kind == SummaryRows::Kind::kClusters) {
        program.rows.tokens = std::min(program.rows.tokens, 128);
        program.budget = {Amount::Unit::kTokens, 100};
      }
      sparse.prompt_tokens.push_back(rows.first_position);
    }
    return sparse;
  }
};

// One list of one row.
struct ScoredList {
  const SparseCase& sparse;
  const SelectProgram& program;
  size_t request = 0;
  int64_t row = 0, context = 0;
  int list = 0;
  std::span<const float> scores;  // by token
};

// By block the score that its tokens have, within what float32 may lose of the
// oracle's. Returns whether scores decide.
bool ExpectOracleScores(const ScoredList& of, const std::vector<Pick>& picks) {
  const ListedPartitions partitions =
      ExpectPartitions(of.program, of.context, TokensOf(picks, of.context));
  const bool decides = !partitions.chosen.empty() && !partitions.left.empty();
  const auto expected = OracleScores(of.sparse, of.program, of.request, of.row,
                                     of.context, of.list);
  for (int64_t token = 0; token < of.context; ++token) {
    const float got = of.scores[static_cast<size_t>(token)];
    const BoundedScore& score =
        expected[static_cast<size_t>(token / of.program.block_tokens)];
    if (decides && std::isfinite(score.value)) {
      EXPECT_NEAR(got, score.value, score.slack) << "token " << token;
    } else if (decides || std::isnan(got)) {
      EXPECT_EQ(got, -std::numeric_limits<float>::infinity())
          << "token " << token;
    }
  }
  return decides;
}

// No token of a cluster that is read has a lower score than one that is not.
// Returns whether any is left.
bool ExpectOrder(const ScoredList& of, const std::vector<Pick>& picks) {
  const std::vector<bool> tokens = TokensOf(picks, of.context);
  float least = std::numeric_limits<float>::infinity(), most = -least;
  for (size_t token = 0; token < tokens.size(); ++token) {
    const float score = of.scores[token];
    EXPECT_FALSE(std::isnan(score)) << "token " << token;
    if (!std::isfinite(score)) continue;
    if (tokens[token]) {
      least = std::min(least, score);
    } else {
      most = std::max(most, score);
    }
  }
  EXPECT_GE(least, most);
  return std::isfinite(least) && std::isfinite(most);
}

TEST_P(ScoresConformanceTest, AreWhatListsAreChosenBy) {
  if (!KnowsScores()) GTEST_SKIP() << "not asked of it";
  int num_scored = 0, num_clustered = 0;
  constexpr int kRounds = 40;
  ForSeeds(kRounds, [&](RandomSource& random, int num_threads) {
    const SparseCase sparse = AnyCase(random);
    const auto result_of = [&](const SparseRun& run) {
      TestDevice device = Device(num_threads);
      return RunSparse(device, sparse, run);
    };
    const SparseResult got = result_of({.asks_scores = true});
    EXPECT_TRUE(got.picks == result_of({}).picks);
    EXPECT_TRUE(got.picks ==
                result_of({.select_rows = 2, .asks_scores = true}).picks);
    ForEachRow(sparse, [&](size_t r, int32_t t, int64_t row, int64_t context) {
      const SelectProgram* program = sparse.ProgramOf(r, t);
      if (program == nullptr) return;
      const auto& lists = got.picks[static_cast<size_t>(row)];
      for (int list = 0; list < std::ssize(lists); ++list) {
        const auto i = static_cast<size_t>(list);
        const ScoredList of = {sparse,
                               *program,
                               r,
                               row,
                               context,
                               list,
                               got.scores[static_cast<size_t>(row)][i]};
        if (program->rows.kind == SummaryRows::Kind::kClusters) {
          num_clustered += ExpectOrder(of, lists[i]);
        } else {
          num_scored += ExpectOracleScores(of, lists[i]);
        }
      }
    });
  });
  EXPECT_GT(num_scored, kRounds / GetParam().seed_step);
  EXPECT_GT(num_clustered, kRounds / 4 / GetParam().seed_step);
}

INSTANTIATE_TEST_SUITE_P(Backends, ScoresConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
