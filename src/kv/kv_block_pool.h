// Which KV blocks of a tier are free, and how many tables hold each other one.
#ifndef WINNOW_KV_KV_BLOCK_POOL_H_
#define WINNOW_KV_KV_BLOCK_POOL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace winnow {

// Ids stay below the two largest words: the largest marks a page without an
// KV block in a device's tables, the one below it an entry not yet written.
inline constexpr int64_t kMaxKvBlocks = 0xfffffffe;
// In a table: the page has no KV block of that tier.
inline constexpr KvBlockId kNoKvBlock(0xffffffff);

// Owns the right to use KV blocks [0, num_kv_blocks), not their bytes. Used by
// the engine's thread alone. At all times a KV block is either free, or in use
// with at least one reference; free + in use = total. The lowest free id goes
// first, so that the same requests give the same addresses in every run.
class KvBlockPool {
 public:
  // REQUIRES: 0 <= num_kv_blocks <= kMaxKvBlocks.
  explicit KvBlockPool(int64_t num_kv_blocks);
  KvBlockPool(const KvBlockPool&) = delete;
  KvBlockPool& operator=(const KvBlockPool&) = delete;
  // CHECKs that every KV block came home.
  ~KvBlockPool();

  int64_t num_kv_blocks() const {
    return static_cast<int64_t>(references_.size());
  }
  int64_t num_free() const { return num_free_; }
  int64_t num_in_use() const { return num_kv_blocks() - num_free_; }
  // Zero for a free KV block. REQUIRES: id is of this pool.
  uint32_t num_references(KvBlockId id) const;
  bool is_free(KvBlockId id) const;
  // Another one from each Take and NewVersion on: as long as it is the same,
  // nobody else was let write the KV block's bytes, free or not.
  uint64_t version(KvBlockId id) const;

  // Takes the lowest free KV block, with one reference; nothing if none is
  // free.
  std::optional<KvBlockId> Take();
  // Adds a reference. REQUIRES: the KV block is in use.
  void Share(KvBlockId id);
  // Drops a reference; the last one frees the KV block. REQUIRES: it is in use.
  void Release(KvBlockId id);
  // Whoever has it will write what others may know. REQUIRES: it is in use.
  void NewVersion(KvBlockId id);

 private:
  void CheckInUse(KvBlockId id) const;

  std::vector<uint32_t> references_;  // [num_kv_blocks]
  std::vector<uint64_t> versions_;    // [num_kv_blocks]
  // A bit a KV block, set where it is free: a scan of 64 KV blocks a word finds
  // the lowest without a heap, and going back leaves no trace of the order.
  std::vector<uint64_t> free_bits_;
  size_t first_word_ = 0;  // no word below it has a free bit
  int64_t num_free_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_KV_KV_BLOCK_POOL_H_
