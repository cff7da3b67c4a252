#include "model/weights/weight_digests.h"

#include <algorithm>

namespace winnow {
namespace {

// As many as fill a piece of weights on their way to a device.
constexpr int kMaxHashers = 8;
// Two writes within one tick of the clock that stamps are taken from leave one
// stamp: 10 ms at most, but whole seconds on some file systems.
constexpr int64_t kTickNs = 100'000'000;
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kCoarseTickNs = 2 * kSecondNs;

// A write after the file was opened would have left another stamp.
bool TellsLaterWrites(const FileDigest& digest) {
  const FileStamp& stamp = digest.stamp;
  const bool is_coarse =
      stamp.modified_ns % kSecondNs == 0 || stamp.changed_ns % kSecondNs == 0;
  const int64_t last = std::max(stamp.modified_ns, stamp.changed_ns);
  return digest.opened_ns - last > (is_coarse ? kCoarseTickNs : kTickNs);
}

}  // namespace

std::vector<FileDigest> DigestFiles(
    const Checkpoint& checkpoint, const DigestMemory& memory,
    const std::function<void(int64_t done, int64_t total)>& progress) {
  std::vector<FileDigest> digests;
  int64_t total = 0;
  for (const MappedFile& file : checkpoint.files()) {
    FileDigest& digest =
        digests.emplace_back(FileDigest{.path = file.path(),
                                        .stamp = file.stamp(),
                                        .opened_ns = file.opened_ns()});
    const auto known = memory.Find(file.path(), file.stamp());
    digest.is_known = known.has_value();
    digest.hash = known.value_or(ContentHash{});
    if (!known) total += file.stamp().num_bytes;
  }
  if (total == 0) return digests;
  ThreadPool pool(std::min(kMaxHashers, ThreadPool::CountWorkers(0)));
  int64_t done = 0;
  for (size_t i = 0; i < digests.size(); ++i) {
    if (digests[i].is_known) continue;
    const MappedFile& file = checkpoint.files()[i];
    digests[i].hash = HashContent(file.bytes(), pool, [&](int64_t of_file) {
      if (progress) progress(done + of_file, total);
    });
    done += file.stamp().num_bytes;
  }
  return digests;
}

Status ConfirmDigests(std::span<const FileDigest> digests,
                      DigestMemory& memory) {
  for (const FileDigest& digest : digests) {
    const Result<FileStamp> stamp = ReadStamp(digest.path);
    if (!stamp.ok() || *stamp != digest.stamp) {
      return MakeError(ErrorCode::kCorrupt,
                       "{}: must stay as it is while it is loaded, has "
                       "changed: start again when it is whole",
                       digest.path.string());
    }
  }
  for (const FileDigest& digest : digests) {
    if (digest.is_known || !TellsLaterWrites(digest)) continue;
    memory.Remember(digest.path, digest.stamp, digest.hash);
  }
  memory.Save();
  return Ok{};
}

}  // namespace winnow
