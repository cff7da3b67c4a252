// Where one sequence's pages are, and how much of them it owns and may trust.
#ifndef WINNOW_KV_PAGE_TABLE_H_
#define WINNOW_KV_PAGE_TABLE_H_

#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/growth.h"
#include "kv/kv_block_pool.h"

namespace winnow {

// Maps a sequence's logical pages to KV blocks. Plain names: references are
// counted by whoever changes the table (KvCache), so a copy of a table is a
// fork of the sequence as soon as its KV blocks are shared; no KV moves. At all
// times num_sealed <= num_tokens and pages() are as many as num_tokens need. A
// page is whole, on the device, or lies on the host for this sequence.
class PageTable {
 public:
  // REQUIRES: page_tokens > 0.
  explicit PageTable(int page_tokens = kPageTokens)
      : page_tokens_(page_tokens) {}

  // KV blocks by logical page; kNoKvBlock where it is not whole. Valid until
  // the table changes.
  std::span<const KvBlockId> pages() const { return pages_; }
  // KV blocks of the host by logical page, up to the last that is not whole;
  // kNoKvBlock where it is.
  std::span<const KvBlockId> far_pages() const { return far_pages_; }
  // Owned: there is room for them, and perhaps their bytes.
  int num_tokens() const { return num_tokens_; }
  // Of these, the first whose bytes exist in all layers.
  int num_sealed() const { return num_sealed_; }
  // In the last page; 0 where it is full and the next token opens another.
  int num_open_tokens() const { return num_tokens_ % page_tokens_; }

  // Owns `num_added` more tokens; `fresh` are the KV blocks of the pages that
  // they open. REQUIRES: as many as that are.
  void Grow(int num_added, std::span<const KvBlockId> fresh);
  // Puts the last page elsewhere. REQUIRES: a page is there.
  void ReplaceLastPage(KvBlockId kv_block);
  // The page lies on the host from here on. REQUIRES: it is whole, and all its
  // tokens are sealed.
  void MoveToHost(size_t page, KvBlockId host);
  // The page is whole again, in `kv_block`. REQUIRES: it is not.
  void MoveToDevice(size_t page, KvBlockId kv_block);
  // Owns its first tokens, whose bytes exist: the first pages lie on the host,
  // the others in `whole`. REQUIRES: it owns none; the pages are as many as the
  // tokens need, those of the host full.
  void TakeOver(int num_tokens, std::span<const KvBlockId> hosts,
                std::span<const KvBlockId> whole);
  // Forgets tokens from `num_tokens` on, with the pages that hold no others.
  // REQUIRES: 0 <= num_tokens <= num_tokens(); pages that are not whole keep
  // all their tokens, or none of any page is left: slots would go on holding
  // what was forgotten.
  void Truncate(int num_tokens);
  // The bytes of tokens [0, num_tokens) exist.
  // REQUIRES: num_sealed() <= num_tokens <= num_tokens().
  void Seal(int num_tokens);

 private:
  int page_tokens_;
  std::vector<KvBlockId> pages_;
  std::vector<KvBlockId> far_pages_;
  int num_tokens_ = 0;
  int num_sealed_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_KV_PAGE_TABLE_H_
