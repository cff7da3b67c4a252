// What lies in a folder's slots, by their trailers.
#ifndef WINNOW_CACHE_DISK_DISK_SCAN_H_
#define WINNOW_CACHE_DISK_DISK_SCAN_H_

#include <utility>
#include <vector>

#include "base/block_folder.h"
#include "cache/disk/disk_piece.h"

namespace winnow {

// Reads the trailer of every slot: one block each, many at a time, so 1 TiB of
// pieces of 4 MiB takes 262,144 small reads. A trailer that cannot be read is
// none. (A journal of what was written was the road not taken: it would be a
// second file whose order against the first must be forced with a sync a
// piece, and it must be compacted; a trailer comes and goes with its piece.)
// REQUIRES: the file has num_slots slots; no transfer is under way.
std::vector<std::pair<DiskSlot, PieceLabel>> ScanTrailers(
    BlockFolder& folder, const DiskFolderId& id, const DiskSlotLayout& layout,
    int64_t num_slots);

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_SCAN_H_
