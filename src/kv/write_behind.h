// Chooses idle pages of the device to copy to the host ahead of need. A pure
// function from a snapshot to a decision.
#ifndef WINNOW_KV_WRITE_BEHIND_H_
#define WINNOW_KV_WRITE_BEHIND_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/prefix_index.h"

namespace winnow {

struct WriteBehindLimits {
  // The wanted number of KV blocks that are free, or idle with a copy on the
  // host and next to leave.
  int64_t watermark = 0;
  int64_t max_pages = 0;  // in one call
};

struct WriteBehindInput {
  int64_t num_free = 0;       // KV blocks of the device without content
  int64_t num_free_host = 0;  // likewise on the host
  // Idle pages in the order in which they leave the device; enough to reach the
  // watermark, or all.
  std::span<const PagePlaces> leaving;
};

// How many of the next pages to leave must lie on the host too.
int64_t NumToBeThere(const WriteBehindLimits& limits, int64_t num_free);

// The KV blocks to copy, in order. A duplicate never displaces content of the
// host.
std::vector<KvBlockId> ChooseWrites(const WriteBehindLimits& limits,
                                    const WriteBehindInput& input);

}  // namespace winnow

#endif  // WINNOW_KV_WRITE_BEHIND_H_
