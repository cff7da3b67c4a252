// LaneTokens: which tokens of a tile each lane of a prompt's tile reads.
#ifndef WINNOW_BACKEND_CPU_ATTEND_LANE_TOKENS_H_
#define WINNOW_BACKEND_CPU_ATTEND_LANE_TOKENS_H_

#include "backend/cpu/isa/vector_attend.h"

namespace winnow {

// Walks over the tiles that some lane has picked, ascending, each lane down
// its own list. Owns nothing: its arrays are the caller's scratch.
class LaneTokens {
 public:
  // REQUIRES: job.picks. `rows` outlives this.
  LaneTokens(const AttendJob& job, const AttendRows& rows,
             ScratchCutter& scratch);

  // The next tile of which some lane reads a token, or -1.
  int64_t Next();

  // Of that tile: each lane's tokens, and those that any and all lanes read.
  const uint32_t* tokens() const { return tokens_; }  // [4, 64]
  const uint32_t (&any() const)[kTilePages] { return any_; }
  const uint32_t (&all() const)[kTilePages] { return all_; }

 private:
  // One lane's list, and the tokens that its row may see: [first, last].
  struct Lane {
    RowPicks picks;
    size_t next = 0;
    int64_t first = 0;
    int64_t last = 0;
  };

  // The first tile not before `tile` that a lane's list names, or kNone.
  static int64_t NextTile(const Lane& lane, int64_t tile);
  // A lane's tokens of a page; pages ascend.
  static uint32_t Take(Lane& lane, int64_t page);

  const int num_lanes_;
  Lane* lanes_;       // [64]
  uint32_t* tokens_;  // [4, 64]
  uint32_t any_[kTilePages] = {};
  uint32_t all_[kTilePages] = {};
  int64_t tile_ = -1;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_LANE_TOKENS_H_
