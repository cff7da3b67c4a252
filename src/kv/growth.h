// A step's demand on the cache and the copies that follow from it, as plain
// data.
#ifndef WINNOW_KV_GROWTH_H_
#define WINNOW_KV_GROWTH_H_

#include <algorithm>
#include <cstdint>

#include "base/ids.h"

namespace winnow {

// A pending step writes the next `num_tokens` tokens of a sequence. Zero if the
// step writes tokens that the sequence already owns, as a chunk's later layers
// do.
struct Growth {
  SequenceId sequence;
  int num_tokens = 0;
};

// Tokens [0, num_tokens) of a page, to be copied to another KV block in all
// layers and heads before the step runs.
struct KvBlockCopy {
  KvBlockId from;
  KvBlockId to;
  int num_tokens = 0;

  friend bool operator==(const KvBlockCopy&, const KvBlockCopy&) = default;
};

// All bytes of one page, copied from one tier to the other.
struct TierCopy {
  enum class Direction : uint8_t { kToHost, kToDevice };
  Direction direction = Direction::kToHost;
  KvBlockId device;
  KvBlockId host;

  friend bool operator==(const TierCopy&, const TierCopy&) = default;
};

// Pages that a sequence of `num_tokens` gains with `num_added` more. One
// addition with a name: scheduler, cache and tests must agree on it.
constexpr int64_t NewPages(int64_t num_tokens, int64_t num_added,
                           int page_tokens = kPageTokens) {
  return PagesFor(num_tokens + num_added, page_tokens) -
         PagesFor(num_tokens, page_tokens);
}

// A demand for pages beside the pages that are free. An error message can name
// both.
struct PageNeed {
  int64_t num_needed = 0;  // pages to take, copies of shared pages included
  int64_t num_free = 0;

  bool fits() const { return num_needed <= num_free; }
  int64_t deficit() const {
    return std::max<int64_t>(num_needed - num_free, 0);
  }
};

}  // namespace winnow

#endif  // WINNOW_KV_GROWTH_H_
