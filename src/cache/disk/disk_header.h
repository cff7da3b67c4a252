// DiskHeader: the small file that says which model a folder's pieces belong to.
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

// The folder's id. Begins the folder where it has no header yet. Fails where
// it is of other values, another size or version, naming which and what was
// found. REQUIRES: names and values are UTF-8.
Result<DiskFolderId> OpenHeader(BlockFolder& folder, const DiskHeader& header);

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_HEADER_H_
