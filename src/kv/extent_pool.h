// Which extents of a tier are free, and how many tables hold each other one.
#ifndef WINNOW_KV_EXTENT_POOL_H_
#define WINNOW_KV_EXTENT_POOL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace winnow {

// Ids stay below the two largest words: the largest marks a page without an
// extent in a device's tables, the one below it an entry not yet written.
inline constexpr int64_t kMaxExtents = 0xfffffffe;
// In a table: the page has no extent of that tier.
inline constexpr ExtentId kNoExtent(0xffffffff);

// Owns the right to use extents [0, num_extents), not their bytes. Used by the
// engine's thread alone. At all times an extent is either free, or in use with
// at least one reference; free + in use = total. The lowest free id goes first,
// so that the same requests give the same addresses in every run.
class ExtentPool {
 public:
  // REQUIRES: 0 <= num_extents <= kMaxExtents.
  explicit ExtentPool(int64_t num_extents);
  ExtentPool(const ExtentPool&) = delete;
  ExtentPool& operator=(const ExtentPool&) = delete;
  // CHECKs that every extent came home.
  ~ExtentPool();

  int64_t num_extents() const {
    return static_cast<int64_t>(references_.size());
  }
  int64_t num_free() const { return num_free_; }
  int64_t num_in_use() const { return num_extents() - num_free_; }
  // Zero for a free extent. REQUIRES: id is of this pool.
  uint32_t num_references(ExtentId id) const;
  bool is_free(ExtentId id) const;
  // Another one from each Take and NewVersion on: as long as it is the same,
  // nobody else was let write the extent's bytes, free or not.
  uint64_t version(ExtentId id) const;

  // Takes the lowest free extent, with one reference; nothing if none is free.
  std::optional<ExtentId> Take();
  // Adds a reference. REQUIRES: the extent is in use.
  void Share(ExtentId id);
  // Drops a reference; the last one frees the extent. REQUIRES: it is in use.
  void Release(ExtentId id);
  // Whoever has it will write what others may know. REQUIRES: it is in use.
  void NewVersion(ExtentId id);

 private:
  void CheckInUse(ExtentId id) const;

  std::vector<uint32_t> references_;  // [num_extents]
  std::vector<uint64_t> versions_;    // [num_extents]
  // A bit an extent, set where it is free: a scan of 64 extents a word finds
  // the lowest without a heap, and going back leaves no trace of the order.
  std::vector<uint64_t> free_bits_;
  size_t first_word_ = 0;  // no word below it has a free bit
  int64_t num_free_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_KV_EXTENT_POOL_H_
