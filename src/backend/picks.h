// What selection yields and attention reads: pieces of pages.
#ifndef WINNOW_BACKEND_PICKS_H_
#define WINNOW_BACKEND_PICKS_H_

#include "tensor/view.h"

namespace winnow {

// A selected piece of one page.
struct Pick {
  uint32_t page;    // logical page of the request; a list's pages ascend
  uint32_t tokens;  // bit t: token t of the page is read
  uint64_t rows;    // bit r: row r of the tile wants it (q heads of the group;
                    // in a prompt, tokens x heads)
  uint16_t source;  // which ReadSource the pick indexes
};

// Lists of picks, one a (request, KV head) and row tile, on the device.
struct PickLists {
  View picks;         // Pick as bytes [caches, lists, capacity]; a cache is a
                      // (request, KV head); lists > 1: tree or prompt tiles
  View num_read;      // i32 [caches, lists]: picks that are read
  View num_hint;      // i32 [caches, lists]: next ranks, worth fetching
  View num_estimate;  // i32 [caches, lists]: ranks read from their summary
};

// Where Bring found or put each pick of a PickLists.
struct Placement {
  View address;  // u64 as u32 pairs [caches, lists, capacity, 2]
  View ready;    // u32 [caches, lists, units]: set when a unit's bytes are in
  View misses;   // i32 [caches, lists]
};

// How many picks make a unit, the grain of attention's arithmetic, and how
// many units a group: docs/design.md section 5.
inline constexpr int kUnitPicks = 4;
inline constexpr int kGroupUnits = 32;
// Keys that one prompt row's running state takes in at a time.
inline constexpr int kPromptTileTokens = 128;

}  // namespace winnow

#endif  // WINNOW_BACKEND_PICKS_H_
