// What a folder of pieces is of: a small file of lines beside them.
#ifndef WINNOW_CACHE_DISK_HEADER_H_
#define WINNOW_CACHE_DISK_HEADER_H_

#include <string>

#include "base/block_folder.h"
#include "cache/disk_piece.h"

namespace winnow {

// All that pieces of a folder have in common. A folder of other values is
// never read: its bytes would be another model's.
struct DiskHeader {
  // What the KV depends on besides roots and tokens (model, format, layout),
  // as one printable line that a user can compare.
  std::string key;
  int64_t piece_bytes = 0;
};

// The folder's id. Begins the folder where it has no header yet. Fails where
// it is of another key, size or version, naming which and what was found.
// REQUIRES: the key is one line of printable characters.
Result<DiskFolderId> OpenHeader(BlockFolder& folder, const DiskHeader& header);

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_HEADER_H_
