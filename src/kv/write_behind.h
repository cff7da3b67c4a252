// Which idle pages of the device are copied to the host before room is wanted:
// a pure function from a snapshot to a decision.
#ifndef WINNOW_KV_WRITE_BEHIND_H_
#define WINNOW_KV_WRITE_BEHIND_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/prefix_index.h"

namespace winnow {

struct WriteBehindLimits {
  // So many KV blocks are to be free, or to be had without a copy: those of
  // pages that leave next and lie on the host already.
  int64_t watermark = 0;
  int64_t max_pages = 0;  // copied at once
};

struct WriteBehindInput {
  int64_t num_free = 0;       // KV blocks of the device that hold nothing
  int64_t num_free_host = 0;  // likewise
  // Idle pages in the order in which they leave the device, enough to reach the
  // watermark, or all.
  std::span<const PagePlaces> leaving;
};

// How many pages that leave next must lie on the host too.
int64_t NumToBeThere(const WriteBehindLimits& limits, int64_t num_free);

// The KV blocks of those that are copied, in order. What the host holds never
// makes room for a duplicate.
std::vector<KvBlockId> ChooseWrites(const WriteBehindLimits& limits,
                                    const WriteBehindInput& input);

}  // namespace winnow

#endif  // WINNOW_KV_WRITE_BEHIND_H_
