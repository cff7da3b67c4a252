// TokenMasks: the tokens of a list, page by page.
#ifndef WINNOW_BACKEND_CPU_SELECT_TOKEN_MASKS_H_
#define WINNOW_BACKEND_CPU_SELECT_TOKEN_MASKS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/contract/fixed_table.h"
#include "base/check.h"

namespace winnow {

// Borrows `pages`, which it makes room in. Pages with tokens and pages without
// pass the same branches, as none would foresee which is which.
class TokenMasks {
 public:
  TokenMasks(int64_t num_pages, std::vector<uint32_t>& pages) {
    pages.assign(static_cast<size_t>(num_pages), 0);
    pages_ = pages;
  }

  void Add(int64_t token) {
    // Of what is not below 0 a page is a shift.
    const auto at = static_cast<uint64_t>(token);
    pages_[at / kPageTokens] |= uint32_t{1} << at % kPageTokens;
  }
  void AddRange(int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end;) {
      const auto at = static_cast<uint64_t>(token);
      const auto in_page = static_cast<int64_t>(at % kPageTokens);
      const int64_t count = std::min(end - token, kPageTokens - in_page);
      pages_[at / kPageTokens] |= (~uint32_t{0} >> (kPageTokens - count))
                                  << in_page;
      token += count;
    }
  }
  // All that are fixed on these pages.
  void Add(const FixedTokens& fixed) {
    fixed.ForEachSegment(std::ssize(pages_),
                         [&](int64_t first_page, std::span<const uint32_t> of) {
                           uint32_t* to = pages_.data() + first_page;
                           for (size_t i = 0; i < of.size(); ++i)
                             to[i] |= of[i];
                         });
  }
  // Without the tokens of `others`.
  void Remove(const TokenMasks& others) {
    for (size_t page = 0; page < pages_.size(); ++page) {
      pages_[page] &= ~others.pages_[page];
    }
  }
  // Writes the pages from `first_page` on that have tokens; returns how many.
  // REQUIRES: no more than `capacity`.
  int32_t Write(int64_t first_page, Pick* picks, int64_t capacity) const {
    int64_t count = 0;
    for (auto page = static_cast<size_t>(first_page); page < pages_.size();
         ++page) {
      const uint32_t tokens = pages_[page];
      if (count == capacity) {
        CHECK(tokens == 0, "page={} capacity={}", page, capacity);
        continue;
      }
      picks[count] = {static_cast<uint32_t>(page), tokens};
      count += tokens != 0 ? 1 : 0;
    }
    return static_cast<int32_t>(count);
  }
  uint32_t operator[](int64_t page) const {
    return pages_[static_cast<size_t>(page)];
  }

 private:
  std::span<uint32_t> pages_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_TOKEN_MASKS_H_
