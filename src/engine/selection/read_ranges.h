// What a row reads of its context, as ranges of tokens.
#ifndef WINNOW_ENGINE_SELECTION_READ_RANGES_H_
#define WINNOW_ENGINE_SELECTION_READ_RANGES_H_

#include <vector>

#include "backend/contract/picks.h"

namespace winnow {

// Tokens [first, end) of a context, and how many q heads read each of them.
struct ReadRange {
  int first = 0;
  int end = 0;
  int num_heads = 0;

  friend bool operator==(const ReadRange&, const ReadRange&) = default;
};

// What the row that drew a token read: what stands before the token.
struct TokenReads {
  int position = 0;  // of the token
  // By layer: ascending, no token in two, none that no head reads.
  std::vector<std::vector<ReadRange>> layers;
  bool truncated = false;  // some ranges have been left out
};

// Tokens that a row can see: [first, end).
struct VisibleTokens {
  int first = 0;
  int end = 0;
};

// The union of the row's lists over its `num_heads` q heads; neighbours that as
// many heads read are one range. REQUIRES: the lists lie on the host.
std::vector<ReadRange> RangesRead(const PickLists& lists, int row,
                                  VisibleTokens visible, int num_heads);

// Keeps `most` of them, those that most heads read, of equals the first. True
// where it left some out.
bool KeepMostRead(size_t most, std::vector<ReadRange>* ranges);

}  // namespace winnow

#endif  // WINNOW_ENGINE_SELECTION_READ_RANGES_H_
