// What requests leave behind in the pool for those that begin as they did.
#ifndef WINNOW_ENGINE_RESIDENCY_PREFIX_CACHE_H_
#define WINNOW_ENGINE_RESIDENCY_PREFIX_CACHE_H_

#include <optional>
#include <string>
#include <vector>

#include "engine/request/sequence.h"
#include "engine/schedule/restore_cost.h"
#include "engine/selection/selector_set.h"
#include "kv/kv_cache.h"

namespace winnow {

// Of pages that prefill rows computed.
inline constexpr PageKind kPromptPage = 0;
// Of pages with decode rows; selector -1, dense, has one too.
constexpr PageKind GeneratedPage(int selector) {
  return static_cast<PageKind>(selector + 2);
}

// All that the KV of a prompt's rows depends on besides the tokens so far, of
// what may differ between two requests of one engine: as bytes, for a
// PrefixPath's root. The model, the KV's format and its layout are the
// engine's own, and an index lives no longer than its engine; a tier that
// does adds them. REQUIRES: selector is the request's, null if it has none.
std::string PrefixRoot(const Sequence& sequence, const Selector* selector);

// Opens and closes the KV of requests through the prefix index. Owns nothing;
// used by the engine's thread alone. A page is of a kind: computed by rows of
// a prompt, or with decode rows, whose KV depends on their selector. Pages
// of the second kind are shared only where bits may depend on how a token was
// computed: not where the batch is invariant, so that then an answer never
// depends on what was cached. Requests on a Prefix, and that itself, take no
// part: they share what they were told to.
//
// A request that is preempted leaves its pages for its return: those that
// others may share where they are, the rest as pages of a kind that is its own,
// and so for nobody else. They leave the device when their turn comes, and it
// begins again with what is still there: the others' rows, and those of its
// last page if that is not full, are computed again as they were. With nothing
// begin again forks, but for their prefix's pages, and those whose selector
// fixed a choice by their prompt's rows: it is fixed once more by computing all
// of them.
class PrefixCache {
 public:
  struct Options {
    bool enabled = true;
    bool batch_invariant = false;
    int64_t page_bytes = 0;                       // over all layers
    const RestoreRates* restore_rates = nullptr;  // outlives this; null: none
  };
  // REQUIRES: both outlive this.
  PrefixCache(KvCache& kv, const SelectorSet& selectors, const Options& options)
      : kv_(kv), selectors_(selectors), options_(options) {}

  // Of pages that the request would begin with, those on the device.
  std::vector<KvBlockId> NearPages(const Sequence& sequence) const;
  // Begins its KV with what is there of its prompt, whole pages, and at most
  // all tokens but one, as one row must be computed to draw from; that of one
  // that was preempted with what is there of all its tokens. Pages of the host
  // are left where they are if they are computed sooner.
  void Open(Sequence& sequence);
  // What one that is read layer by layer begins with: of those, `max_pages` at
  // most. Nothing of it is opened.
  PrefixHit FindFar(const Sequence& sequence, size_t max_pages) const;
  // Its whole pages are there for others from here on.
  void Enter(const Sequence& sequence);
  // Ends its KV, and leaves its pages behind, if they are true.
  void Close(const Sequence& sequence, bool leaves_pages);
  // Ends its KV for now, and leaves its pages for its return.
  void Park(const Sequence& sequence);
  // It will not return.
  void ForgetParked(const Sequence& sequence);

  bool TakesPart(const Sequence& sequence) const;
  const Selector* SelectorOf(const Sequence& sequence) const;
  // Whether it may begin with pages of others, were there any.
  bool LooksUp(const Sequence& sequence) const;
  // With how many of them.
  size_t MaxCachedPages(const Sequence& sequence) const;
  // Of its sealed pages, as many as may be shared.
  std::vector<PageKind> KindsOf(const Sequence& sequence) const;

 private:
  bool FixesChoice(const Sequence& sequence) const;
  // Whether it leaves pages for its return.
  bool CanPark(const Sequence& sequence) const;
  std::string RootOf(const Sequence& sequence) const;
  PrefixHit Find(const Sequence& sequence) const;
  // The same, without those of the host that are computed sooner.
  PrefixHit FindWorthwhile(const Sequence& sequence) const;
  // Of one that was preempted.
  PrefixHit FindParked(const Sequence& sequence) const;
  void Reopen(Sequence& sequence, const PrefixHit& hit);
  // What page `page` of a sequence is; nothing where nobody may share it.
  std::optional<PageKind> KindOf(const Sequence& sequence, size_t page) const;

  KvCache& kv_;
  const SelectorSet& selectors_;
  const Options options_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RESIDENCY_PREFIX_CACHE_H_
