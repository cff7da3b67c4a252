// What a checkpoint's files hash to, all of their bytes.
#ifndef WINNOW_MODEL_WEIGHTS_WEIGHT_DIGESTS_H_
#define WINNOW_MODEL_WEIGHTS_WEIGHT_DIGESTS_H_

#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "base/content_hash.h"
#include "base/file.h"
#include "model/weights/checkpoint.h"
#include "model/weights/digest_memory.h"

namespace winnow {

struct FileDigest {
  std::filesystem::path path;
  FileStamp stamp;        // of what was hashed
  int64_t opened_ns = 0;  // when it had that stamp, at the latest
  bool is_known = false;  // the memory had it
  ContentHash hash = {};
};

// Of each file, ascending by path: from the memory where that knows the file as
// it is, else of all of its bytes, by all cores up to eight. `progress`, which
// may be none, hears of the bytes that are to be hashed.
std::vector<FileDigest> DigestFiles(
    const Checkpoint& checkpoint, const DigestMemory& memory,
    const std::function<void(int64_t done, int64_t total)>& progress);

// Tells the memory what was hashed, and saves it. Fails where a file has
// changed since it was opened: nobody knows which of its bytes were read.
Status ConfirmDigests(std::span<const FileDigest> digests,
                      DigestMemory& memory);

}  // namespace winnow

#endif  // WINNOW_MODEL_WEIGHTS_WEIGHT_DIGESTS_H_
