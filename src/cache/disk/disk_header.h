// What a folder of pieces is of: a small file beside them.
#ifndef WINNOW_CACHE_DISK_DISK_HEADER_H_
#define WINNOW_CACHE_DISK_DISK_HEADER_H_

#include <string>
#include <utility>
#include <vector>

#include "base/block_folder.h"
#include "cache/disk/disk_piece.h"

namespace winnow {

// All that pieces of a folder have in common. A folder of other values is
// never read: its bytes would be another model's.
struct DiskHeader {
  // What the KV depends on besides roots and tokens (model, format, layout), by
  // names that tell a user where each value stands. Distinct; in the order in
  // which differences are told.
  std::vector<std::pair<std::string, std::string>> made_with;
  int64_t piece_bytes = 0;
};

// The folder's id. Begins the folder where it has no header yet. Fails where
// it is of other values, another size or version, naming which and what was
// found. REQUIRES: names and values are UTF-8.
Result<DiskFolderId> OpenHeader(BlockFolder& folder, const DiskHeader& header);

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_HEADER_H_
