// The conformance suite, part six: what Select names behind its lists.
#include <gtest/gtest.h>

#include <map>

#include "backend/conformance/listed_tokens.h"
#include "backend/conformance/seeded_test.h"

namespace winnow {
namespace {

using TokensOfPage = std::map<uint32_t, uint32_t>;

TokensOfPage TokensByPage(const std::vector<Pick>& list) {
  TokensOfPage tokens;
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_NE(list[i].tokens, 0u);
    EXPECT_TRUE(i == 0 || list[i - 1].page < list[i].page);
    tokens[list[i].page] = list[i].tokens;
  }
  return tokens;
}

TokensOfPage Without(TokensOfPage tokens, const TokensOfPage& others) {
  for (const auto& [page, of_others] : others) {
    if ((tokens[page] &= ~of_others) == 0) tokens.erase(page);
  }
  return tokens;
}

// The case with so many times the budgets.
SparseCase WithBudgets(const SparseCase& sparse, double times) {
  SparseCase scaled = sparse;
  for (SelectProgram& program : scaled.programs) program.budget.value *= times;
  return scaled;
}

// Sparse programs whose choice is made once, too.
SelectProgram ProgramWithOutliers(Dtype dtype) {
  SelectProgram program;
  program.scope = Scope::kKvHead;
  program.rows = {SummaryRows::Kind::kMean, 8, 8, dtype};
  program.block_tokens = 8;
  program.fixed.kind = FixedChoice::Kind::kOutliers;
  program.fixed.budget = {Amount::Unit::kTokens, 40};
  program.forced.recent_tokens = 16;
  program.budget = {Amount::Unit::kTokens, 64};
  return program;
}

class NextRanksConformanceTest : public SeededTest {
 protected:
  bool Knows(SelectFeature feature) {
    return (Device(1).backend().attributes().select_features &
            static_cast<uint32_t>(feature)) != 0;
  }

  // Rows far behind the beginning, whose budgets leave most of it out.
  SparseCase AnyCase(RandomSource& random) {
    std::vector<RequestRows> requests(
        static_cast<size_t>(random.Between(1, 3)));
    for (RequestRows& rows : requests) {
      rows.first_position = static_cast<int32_t>(random.Between(200, 1500));
      rows.num_tokens = static_cast<int32_t>(random.Between(1, 6));
      if (random.Chance(0.3)) {
        rows.num_prefill_rows =
            static_cast<int32_t>(random.Between(0, rows.num_tokens));
      }
    }
    SparseCase sparse(RandomKvShape(random), requests, random);
    const Dtype dtype = sparse.paged.shape().dtype;
    const uint32_t features = Device(1).backend().attributes().select_features;
    for (int i = 0; i < 2; ++i) {
      SelectProgram& program = sparse.programs.emplace_back(
          Knows(SelectFeature::kFixedChoice) && random.Chance(0.2)
              ? ProgramWithOutliers(dtype)
              : RandomProgram(dtype, features, random));
      program.budget = random.Chance(0.3)
                           ? Amount{Amount::Unit::kShare, 0.2}
                           : Amount{Amount::Unit::kTokens,
                                    random.Among({64.0, 100.0, 200.0})};
    }
    for (const RequestRows& rows : requests) {
      sparse.selectors.push_back(static_cast<int32_t>(random.Between(-1, 1)));
      sparse.prompt_tokens.push_back(rows.first_position +
                                     rows.num_prefill_rows);
    }
    return sparse;
  }
};

struct Runs {
  SparseResult none, chosen, more;  // budgets of nothing, as they are, larger
};

// Returns how many lists name any.
int ExpectNext(const SparseCase& sparse, const SparseRun& run,
               const Runs& runs) {
  size_t row = 0;
  int num_named = 0;
  for (size_t r = 0; r < sparse.paged.requests().size(); ++r) {
    const RequestRows& rows = sparse.paged.requests()[r];
    for (int32_t t = 0; t < rows.num_tokens; ++t, ++row) {
      const auto& next = runs.chosen.next[row];
      EXPECT_EQ(next.size(), runs.chosen.picks[row].size());
      const bool may_have =
          run.num_segments[r] > 0 && t >= rows.num_prefill_rows;
      for (size_t list = 0; list < next.size(); ++list) {
        if (IsEveryPage(runs.chosen.picks[row][list])) {
          EXPECT_TRUE(next[list].empty()) << "row " << row;
          continue;
        }
        const TokensOfPage got = TokensByPage(next[list]);
        const TokensOfPage chosen = TokensByPage(runs.chosen.picks[row][list]);
        const TokensOfPage none = TokensByPage(runs.none.picks[row][list]);
        const TokensOfPage expected =
            may_have && chosen != none
                ? Without(TokensByPage(runs.more.picks[row][list]), chosen)
                : TokensOfPage();
        EXPECT_EQ(got, expected) << "row " << row << " list " << list;
        num_named += !got.empty();
      }
    }
  }
  return num_named;
}

// What is picked is what is picked without being asked for more.
TEST_P(NextRanksConformanceTest, AreWhatALargerBudgetAdds) {
  if (!Knows(SelectFeature::kNextRanks)) GTEST_SKIP() << "not asked of it";
  int num_named = 0;
  const int num_rounds = GetParam().seed_step > 1 ? 40 : 60;
  ForSeeds(num_rounds, [&](RandomSource& random, int num_threads) {
    const SparseCase sparse = AnyCase(random);
    SparseRun run = {.next_times = random.Among({1.0, 1.5, 2.0, 4.0})};
    for (size_t r = 0; r < sparse.paged.requests().size(); ++r) {
      run.num_segments.push_back(random.Chance(0.7) ? 1 : 0);
    }
    const auto result_of = [&](double times, const SparseRun& as) {
      TestDevice device = Device(num_threads);
      return RunSparse(device, WithBudgets(sparse, times), as);
    };
    const Runs runs = {.none = result_of(0, {}),
                       .chosen = result_of(1, run),
                       .more = result_of(run.next_times, {})};
    EXPECT_TRUE(runs.chosen.picks == result_of(1, {}).picks);
    num_named += ExpectNext(sparse, run, runs);
    run.select_rows = 1 + static_cast<int>(random.Between(0, 30));
    EXPECT_TRUE(runs.chosen.next == result_of(1, run).next);
  });
  EXPECT_GT(num_named, num_rounds * 2 / 3 / GetParam().seed_step);
}

INSTANTIATE_TEST_SUITE_P(Backends, NextRanksConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
