// Hashes of all bytes of a checkpoint's files.
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

// One digest a file, ascending by path. A file that the memory knows with its
// stamp is not read. Other files are hashed whole, by up to eight cores;
// `progress`, which may be empty, counts their bytes.
std::vector<FileDigest> DigestFiles(
    const Checkpoint& checkpoint, const DigestMemory& memory,
    const std::function<void(int64_t done, int64_t total)>& progress);

// Saves the digests in the memory. Fails where a file has changed since it was
// opened, because either version's bytes may have been read.
Status ConfirmDigests(std::span<const FileDigest> digests,
                      DigestMemory& memory);

}  // namespace winnow

#endif  // WINNOW_MODEL_WEIGHTS_WEIGHT_DIGESTS_H_
