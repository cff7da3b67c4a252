// ReclaimablePages: offloaded pages whose bytes still lie on the device.
#ifndef WINNOW_KV_RECLAIMABLE_PAGES_H_
#define WINNOW_KV_RECLAIMABLE_PAGES_H_

#include <cstdint>
#include <vector>

#include "kv/kv_block_pool.h"

namespace winnow {

// The number of tokens for which a page stays reclaimable. After that, cache
// slots hold the most chosen tokens (docs/decisions/103-first-rows.md). The
// limit makes a cache budget the true size of a request's cache.
inline constexpr int kLingerTokens = 16;

// An offloaded page, and the device's KV block that still holds its bytes.
struct ReclaimablePage {
  int64_t page = 0;
  KvBlockId kv_block;

  friend bool operator==(const ReclaimablePage&,
                         const ReclaimablePage&) = default;
};

// Owns numbers of one sequence: the KV blocks that its pages have left, and the
// version of each. Holds no reference. A new owner of a KV block changes the
// version, which ends the entry. Used by the engine's thread alone.
class ReclaimablePages {
 public:
  // The page left `kv_block` when the sequence had `num_tokens`. Drops entries
  // older than kLingerTokens.
  void Leave(int64_t page, KvBlockId kv_block, uint64_t version,
             int num_tokens);
  // The page is resident again, or gone.
  void Forget(int64_t page);

  // The pages whose KV blocks still hold their bytes, in the order in which
  // they left. `num_tokens` is the sequence's current length. REQUIRES: `pool`
  // owns the KV blocks.
  std::vector<ReclaimablePage> StillThere(const KvBlockPool& pool,
                                          int num_tokens) const;

 private:
  struct Left {
    int64_t page = 0;
    KvBlockId kv_block;
    uint64_t version = 0;
    int num_tokens = 0;
  };

  std::vector<Left> left_;
};

}  // namespace winnow

#endif  // WINNOW_KV_RECLAIMABLE_PAGES_H_
