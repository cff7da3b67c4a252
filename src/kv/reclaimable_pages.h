// ReclaimablePages: where pages lie yet that a sequence has given up.
#ifndef WINNOW_KV_RECLAIMABLE_PAGES_H_
#define WINNOW_KV_RECLAIMABLE_PAGES_H_

#include <cstdint>
#include <vector>

#include "kv/kv_block_pool.h"

namespace winnow {

// Tokens for which a page stays reclaimable, at most: by then slots hold what
// rows choose most (docs/decisions/103-first-rows.md), and a cache budget is to
// be all that a request has.
inline constexpr int kLingerTokens = 16;

// A page of a sequence that is not whole, and the KV block of the device in
// which its bytes lie yet.
struct ReclaimablePage {
  int64_t page = 0;
  KvBlockId kv_block;

  friend bool operator==(const ReclaimablePage&,
                         const ReclaimablePage&) = default;
};

// Owns numbers alone, of one sequence: which KV blocks its pages have left, and
// the bytes of which versions they were. It holds none of them: whoever takes
// a KV block ends that, and need not say so. Used by the engine's thread alone.
class ReclaimablePages {
 public:
  // The page has left `kv_block`, when the sequence had `num_tokens`. What left
  // too long before is forgotten.
  void Leave(int64_t page, KvBlockId kv_block, uint64_t version,
             int num_tokens);
  // The page is whole again, or gone.
  void Forget(int64_t page);

  // Those whose KV blocks have the same bytes yet, in the order in which they
  // left, when the sequence has `num_tokens`. REQUIRES: `pool` has the KV
  // blocks.
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
