#include "backend/cpu/attend/lane_tokens.h"

#include <algorithm>
#include <limits>

#include "backend/cpu/attend/tile_pages.h"

namespace winnow {
namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

}  // namespace

LaneTokens::LaneTokens(const AttendJob& job, const AttendRows& rows,
                       ScratchCutter& scratch)
    : num_lanes_(rows.num_lanes()),
      lanes_(scratch.Take<Lane>(kTileRows)),
      tokens_(scratch.Take<uint32_t>(kTilePages * kTileRows)) {
  for (int i = 0; i < num_lanes_; ++i) {
    const LanePlace place = PlaceOf(job, rows, i);
    const int64_t position = job.rows.position(place.row);
    lanes_[i] = {.picks = PicksOf(job, place),
                 .first = FirstVisible(position, job.step.window),
                 .last = position};
  }
  // Lanes without a row read nothing.
  std::fill_n(tokens_, kTilePages * kTileRows, 0u);
}

int64_t LaneTokens::Next() {
  // A list may name a tile of which a window leaves nothing.
  for (uint32_t of_tile = 0; of_tile == 0;) {
    int64_t tile = kNone;
    for (int i = 0; i < num_lanes_; ++i) {
      tile = std::min(tile, NextTile(lanes_[i], tile_ + 1));
    }
    if (tile == kNone) return -1;
    tile_ = tile;
    for (int page = 0; page < kTilePages; ++page) {
      uint32_t any = 0, all = ~uint32_t{0};
      for (int i = 0; i < num_lanes_; ++i) {
        const uint32_t tokens = Take(lanes_[i], tile * kTilePages + page);
        tokens_[page * kTileRows + i] = tokens;
        any |= tokens;
        all &= tokens;
      }
      any_[page] = any;
      all_[page] = all;
      of_tile |= any;
    }
  }
  return tile_;
}

int64_t LaneTokens::NextTile(const Lane& lane, int64_t tile) {
  if (!lane.picks.every_page) {
    return lane.next == lane.picks.list.size()
               ? kNone
               : int64_t{lane.picks.list[lane.next].page} / kTilePages;
  }
  const int64_t next = std::max(tile, lane.first / kTileKeys);
  return next * kTileKeys <= lane.last ? next : kNone;
}

uint32_t LaneTokens::Take(Lane& lane, int64_t page) {
  const uint32_t visible = TokensIn(page, lane.first, lane.last);
  if (lane.picks.every_page) return visible;
  if (lane.next == lane.picks.list.size()) return 0;
  const Pick& pick = lane.picks.list[lane.next];
  if (pick.page != page) return 0;
  ++lane.next;
  return pick.tokens & visible;
}

}  // namespace winnow
