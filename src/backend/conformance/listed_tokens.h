// What lists of picks name, token by token, for tests.
#ifndef WINNOW_BACKEND_CONFORMANCE_LISTED_TOKENS_H_
#define WINNOW_BACKEND_CONFORMANCE_LISTED_TOKENS_H_

#include <gtest/gtest.h>

#include <vector>

#include "backend/conformance/sparse_case.h"

namespace winnow {

inline bool IsEveryPage(const std::vector<Pick>& list) {
  return list.size() == 1 && list[0].tokens == 0;
}

// tokens[t]: the list names token t. Fails where its pages do not ascend.
inline std::vector<bool> TokensOf(const std::vector<Pick>& list,
                                  int64_t context) {
  std::vector<bool> tokens(static_cast<size_t>(PagesFor(context)) * kPageTokens,
                           IsEveryPage(list));
  for (size_t i = 0; i < list.size() && !IsEveryPage(list); ++i) {
    EXPECT_NE(list[i].tokens, 0u);
    EXPECT_TRUE(i == 0 || list[i - 1].page < list[i].page);
    for (int t = 0; t < kPageTokens; ++t) {
      const size_t token =
          size_t{list[i].page} * kPageTokens + static_cast<size_t>(t);
      EXPECT_LT(token, tokens.size());
      if (list[i].tokens >> t & 1) tokens.at(token) = true;
    }
  }
  for (size_t t = static_cast<size_t>(context); t < tokens.size(); ++t) {
    EXPECT_TRUE(!tokens[t] || IsEveryPage(list)) << "token " << t;
  }
  tokens.resize(static_cast<size_t>(context));
  return tokens;
}

// f(request, its row, row of the step, context)
template <typename F>
void ForEachRow(const SparseCase& sparse, F&& f) {
  int64_t row = 0;
  for (size_t r = 0; r < sparse.paged.requests().size(); ++r) {
    const RequestRows& rows = sparse.paged.requests()[r];
    for (int32_t t = 0; t < rows.num_tokens; ++t, ++row) {
      f(r, t, row, int64_t{rows.first_position} + t + 1);
    }
  }
}

// The tokens that lists have named so far, by row and list.
using ListedTokens = std::vector<std::vector<bool>>;

// Fails the test where a list lacks what it had before; then has what it has.
inline void ExpectGrown(const SparseCase& sparse, const SparseResult& got,
                        ListedTokens& before) {
  size_t list = 0;
  ForEachRow(sparse, [&](size_t, int32_t, int64_t row, int64_t context) {
    for (const auto& picks : got.picks[static_cast<size_t>(row)]) {
      const std::vector<bool> tokens = TokensOf(picks, context);
      if (list == before.size()) before.emplace_back(tokens.size(), false);
      for (size_t t = 0; t < tokens.size(); ++t) {
        ASSERT_TRUE(tokens[t] || !before[list][t])
            << "row " << row << " token " << t;
      }
      before[list++] = tokens;
    }
  });
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_LISTED_TOKENS_H_
