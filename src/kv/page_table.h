// Where the pages of one sequence lie, and how many of its tokens it owns and
// may trust.
#ifndef WINNOW_KV_PAGE_TABLE_H_
#define WINNOW_KV_PAGE_TABLE_H_

#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/growth.h"
#include "kv/kv_block_pool.h"

namespace winnow {

// Maps a sequence's logical pages to KV blocks. KvCache counts the references.
// Hence a copy of a table is a fork of the sequence once its KV blocks are
// shared; no KV moves. num_sealed <= num_tokens always, and pages() are as many
// as num_tokens need. A page is either resident or offloaded to the host.
class PageTable {
 public:
  // REQUIRES: page_tokens > 0.
  explicit PageTable(int page_tokens = kPageTokens)
      : page_tokens_(page_tokens) {}

  // KV blocks by logical page; kNoKvBlock for an offloaded page. Valid until
  // the table changes.
  std::span<const KvBlockId> pages() const { return pages_; }
  // KV blocks of the host by logical page, up to the last offloaded page;
  // kNoKvBlock for a resident page.
  std::span<const KvBlockId> far_pages() const { return far_pages_; }
  // Owned tokens: they have room, and perhaps bytes.
  int num_tokens() const { return num_tokens_; }
  // The first owned tokens whose bytes exist in all layers.
  int num_sealed() const { return num_sealed_; }
  // Tokens in the last page; 0 if it is full and the next token opens a page.
  int num_open_tokens() const { return num_tokens_ % page_tokens_; }

  // Owns `num_added` more tokens. `fresh` are the KV blocks of the pages that
  // they open. REQUIRES: exactly as many as are opened.
  void Grow(int num_added, std::span<const KvBlockId> fresh);
  // Puts the last page into another KV block. REQUIRES: there is a page.
  void ReplaceLastPage(KvBlockId kv_block);
  // Offloads the page. REQUIRES: it is resident, and all its tokens are sealed.
  void MoveToHost(size_t page, KvBlockId host);
  // Makes the page resident in `kv_block`. REQUIRES: it is offloaded.
  void MoveToDevice(size_t page, KvBlockId kv_block);
  // Owns its first tokens, all sealed. The first pages lie in `hosts`, the
  // others in `whole`. REQUIRES: it owns no tokens; the pages are as many as
  // the tokens need; pages of the host are full.
  void TakeOver(int num_tokens, std::span<const KvBlockId> hosts,
                std::span<const KvBlockId> whole);
  // Forgets tokens from `num_tokens` on, and pages left without tokens.
  // REQUIRES: 0 <= num_tokens <= num_tokens(). Offloaded pages keep all their
  // tokens unless no page is left, because cache slots would keep forgotten
  // tokens.
  void Truncate(int num_tokens);
  // Declares that the bytes of tokens [0, num_tokens) exist. REQUIRES:
  // num_sealed() <= num_tokens <= num_tokens().
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
