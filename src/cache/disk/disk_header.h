// DiskHeader: the small file that names the model to which a folder's pieces
// belong.
#ifndef WINNOW_CACHE_DISK_DISK_HEADER_H_
#define WINNOW_CACHE_DISK_DISK_HEADER_H_

#include <string>
#include <utility>
#include <vector>

#include "base/block_folder.h"
#include "cache/disk/disk_piece.h"

namespace winnow {

// The values that all pieces of a folder share. A folder with other values is
// never read, because its bytes belong to another model.
struct DiskHeader {
  // Values on which the KV depends besides roots and tokens: model, format,
  // layout. Each name tells a user where the value stands. Names are distinct;
  // errors report differences in this order.
  std::vector<std::pair<std::string, std::string>> made_with;
  int64_t piece_bytes = 0;
};

// Returns the folder's id. Writes the header if the folder has none. Fails if
// the header has other values, another piece size or another version; the
// message names the difference. REQUIRES: names and values are UTF-8.
Result<DiskFolderId> OpenHeader(BlockFolder& folder, const DiskHeader& header);

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_HEADER_H_
