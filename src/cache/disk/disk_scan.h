// Reads the trailers of a folder's slots.
#ifndef WINNOW_CACHE_DISK_DISK_SCAN_H_
#define WINNOW_CACHE_DISK_DISK_SCAN_H_

#include <utility>
#include <vector>

#include "base/block_folder.h"
#include "cache/disk/disk_piece.h"

namespace winnow {

// Reads the trailer of every slot, one block each, many at a time. 1 TiB of
// pieces of 4 MiB takes 262,144 small reads. A trailer that cannot be read is
// left out. REQUIRES: the file has num_slots slots; no transfer is in flight.
//
// The road not taken was a journal of writes. A second file must be ordered
// against the first with a sync for each piece, and it must be compacted. A
// trailer comes and goes with its piece.
std::vector<std::pair<DiskSlot, PieceLabel>> ScanTrailers(
    BlockFolder& folder, const DiskFolderId& id, const DiskSlotLayout& layout,
    int64_t num_slots);

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_SCAN_H_
