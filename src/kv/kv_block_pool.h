// Which KV blocks of a tier are free, and how many tables hold each of the
// rest.
#ifndef WINNOW_KV_KV_BLOCK_POOL_H_
#define WINNOW_KV_KV_BLOCK_POOL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace winnow {

// Ids stay below the two largest words. In a device's tables the largest marks
// a page without a KV block; the other marks an entry not yet written.
inline constexpr int64_t kMaxKvBlocks = 0xfffffffe;
// In a table: the page has no KV block of that tier.
inline constexpr KvBlockId kNoKvBlock(0xffffffff);

// Owns the right to use KV blocks [0, num_kv_blocks), not their bytes. Used by
// the engine's thread alone. A KV block is always either free, or in use with
// at least one reference; free + in use = total. Take returns the lowest free
// id, so the same requests get the same addresses in every run.
class KvBlockPool {
 public:
  // REQUIRES: 0 <= num_kv_blocks <= kMaxKvBlocks.
  explicit KvBlockPool(int64_t num_kv_blocks);
  KvBlockPool(const KvBlockPool&) = delete;
  KvBlockPool& operator=(const KvBlockPool&) = delete;
  // CHECKs that every KV block was released.
  ~KvBlockPool();

  int64_t num_kv_blocks() const {
    return static_cast<int64_t>(references_.size());
  }
  int64_t num_free() const { return num_free_; }
  int64_t num_in_use() const { return num_kv_blocks() - num_free_; }
  // Zero for a free KV block. REQUIRES: `id` is of this pool.
  uint32_t num_references(KvBlockId id) const;
  bool is_free(KvBlockId id) const;
  // Changes with each Take and NewVersion. An equal version proves that nothing
  // was allowed to write the bytes since, even if the KV block is free.
  uint64_t version(KvBlockId id) const;

  // Takes the lowest free KV block, with one reference. Nothing if none is
  // free.
  std::optional<KvBlockId> Take();
  // Adds a reference. REQUIRES: the KV block is in use.
  void Share(KvBlockId id);
  // Drops a reference; the last one frees the KV block. REQUIRES: it is in use.
  void Release(KvBlockId id);
  // Declares that the holder will change the bytes, so copies of them become
  // stale. REQUIRES: the KV block is in use.
  void NewVersion(KvBlockId id);

 private:
  void CheckInUse(KvBlockId id) const;

  std::vector<uint32_t> references_;  // [num_kv_blocks]
  std::vector<uint64_t> versions_;    // [num_kv_blocks]
  // One bit for each KV block, set if it is free. A scan of words finds the
  // lowest free one without a heap, and the order of releases leaves no trace.
  std::vector<uint64_t> free_bits_;
  size_t first_word_ = 0;  // words below it have no free bit
  int64_t num_free_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_KV_KV_BLOCK_POOL_H_
