#include "engine/residency/prefix_cache.h"

#include <algorithm>
#include <array>

#include "engine/request/key_bytes.h"

namespace winnow {
namespace {

// Of pages that are for the return of one sequence alone. Its id is another's
// only 2^31 requests later.
PageKind ParkedPage(SequenceId id) {
  constexpr uint32_t kIsParked = uint32_t{1} << 31;
  return kIsParked | static_cast<uint32_t>(id.value() % kIsParked);
}

// Under which those lie that take no part: shorter than any PrefixRoot.
constexpr std::string_view kParkedRoot = "p";

}  // namespace

std::string PrefixRoot(const Sequence& sequence, const Selector* selector) {
  const Request& request = sequence.request();
  KeyBytes root;
  const RequestRope& rope = sequence.rope();
  root.Add(rope.scale);
  for (const float frequency : rope.inverse_frequencies) {
    root.Add(frequency);
  }
  int chooser = -1;
  if (selector != nullptr && selector->program.in_prompt &&
      sequence.num_prompt_tokens() >= selector->program.dense_len) {
    chooser = request.selector;
  }
  root.Add(chooser);
  // Last, as the one part whose length may differ.
  return root.text() + request.cache_salt;
}

bool PrefixCache::TakesPart(const Sequence& sequence) const {
  return options_.enabled && sequence.request().cache_prefix &&
         !sequence.is_prefix() && !sequence.request().prefix;
}

const Selector* PrefixCache::SelectorOf(const Sequence& sequence) const {
  const int selector = sequence.request().selector;
  return selector < 0 ? nullptr : &selectors_.selector(selector);
}

bool PrefixCache::FixesChoice(const Sequence& sequence) const {
  const Selector* selector = SelectorOf(sequence);
  return selector != nullptr &&
         selector->program.fixed.kind != FixedChoice::Kind::kNone;
}

bool PrefixCache::CanPark(const Sequence& sequence) const {
  return !sequence.is_prefix() && !sequence.request().prefix &&
         !FixesChoice(sequence);
}

std::string PrefixCache::RootOf(const Sequence& sequence) const {
  return TakesPart(sequence) ? PrefixRoot(sequence, SelectorOf(sequence))
                             : std::string(kParkedRoot);
}

// A choice that is fixed from what the prompt's rows ask needs all of them, and
// so does who wants to know what they say.
bool PrefixCache::LooksUp(const Sequence& sequence) const {
  return TakesPart(sequence) && !FixesChoice(sequence) &&
         !sequence.request().prompt_logprobs;
}

size_t PrefixCache::MaxCachedPages(const Sequence& sequence) const {
  if (!LooksUp(sequence)) return 0;
  const int num_tokens =
      std::min(sequence.num_prefill_rows(), sequence.num_prompt_tokens() - 1);
  return static_cast<size_t>(num_tokens / kPageTokens);
}

PrefixHit PrefixCache::Find(const Sequence& sequence) const {
  if (sequence.preempted()) return FindParked(sequence);
  const size_t most = MaxCachedPages(sequence);
  if (most == 0) return {};
  std::vector<PageKind> kinds = {kPromptPage};
  if (!options_.batch_invariant) {
    kinds.push_back(GeneratedPage(sequence.request().selector));
  }
  const std::string root = RootOf(sequence);
  return kv_.prefixes().Find({root, sequence.tokens()}, most, kinds);
}

PrefixHit PrefixCache::FindParked(const Sequence& sequence) const {
  if (!CanPark(sequence)) return {};
  // Its own before those of others, which may have the same tokens.
  const PageKind parked = ParkedPage(sequence.id());
  std::vector<PageKind> kinds = {parked, kPromptPage};
  if (!options_.batch_invariant) {
    kinds.push_back(GeneratedPage(sequence.request().selector));
  }
  const std::string root = RootOf(sequence);
  // Another may have left more of its prompt than its own rows have spoken of.
  const size_t most = sequence.num_scored() + 1 < sequence.num_prompt_tokens()
                          ? static_cast<size_t>(sequence.num_scored())
                          : sequence.tokens().size() - 1;
  PrefixHit hit =
      kv_.prefixes().Find({root, sequence.tokens()}, most / kPageTokens, kinds);
  // Where bits count, another's prompt is not what it generated itself.
  for (size_t page = 0; page < hit.kinds.size(); ++page) {
    const bool is_own = hit.kinds[page] == parked;
    if (is_own || KindOf(sequence, page)) continue;
    hit.Shorten(page);
  }
  return hit;
}

std::vector<KvBlockId> PrefixCache::NearPages(const Sequence& sequence) const {
  return Find(sequence).kv_blocks;
}

PrefixHit PrefixCache::FindWorthwhile(const Sequence& sequence) const {
  PrefixHit hit = Find(sequence);
  const int64_t num_on_host = std::ssize(hit.host_kv_blocks);
  const FarPages far = {
      .host_bytes = num_on_host * options_.page_bytes,
      .first_token = static_cast<int>(hit.kv_blocks.size()) * kPageTokens,
      .num_tokens = static_cast<int>(num_on_host) * kPageTokens};
  if (options_.restore_rates && !RestorePays(*options_.restore_rates, far)) {
    hit.Shorten(hit.kv_blocks.size());
  }
  return hit;
}

PrefixHit PrefixCache::FindFar(const Sequence& sequence,
                               size_t max_pages) const {
  PrefixHit hit = FindWorthwhile(sequence);
  hit.Shorten(max_pages);
  return hit;
}

void PrefixCache::Open(Sequence& sequence) {
  const PrefixHit hit = FindWorthwhile(sequence);
  if (sequence.preempted()) return Reopen(sequence, hit);
  kv_.Open(sequence.id(), hit);
  sequence.Admit();
  sequence.BeginCached(hit.kinds, std::ssize(hit.host_kv_blocks));
}

void PrefixCache::Reopen(Sequence& sequence, const PrefixHit& hit) {
  kv_.Open(sequence.id(), hit);
  ForgetParked(sequence);
  std::vector<PageKind> shared = hit.kinds;
  const auto own =
      std::find(shared.begin(), shared.end(), ParkedPage(sequence.id()));
  shared.erase(own, shared.end());
  sequence.Admit();
  sequence.Resume(std::move(shared),
                  static_cast<int>(hit.kinds.size()) * kPageTokens,
                  std::ssize(hit.host_kv_blocks));
}

std::optional<PageKind> PrefixCache::KindOf(const Sequence& sequence,
                                            size_t page) const {
  if (!TakesPart(sequence)) return std::nullopt;
  const auto num_prompt_pages =
      static_cast<size_t>(sequence.num_prefill_rows() / kPageTokens);
  if (page < num_prompt_pages) return kPromptPage;
  if (options_.batch_invariant) return std::nullopt;
  return GeneratedPage(sequence.request().selector);
}

std::vector<PageKind> PrefixCache::KindsOf(const Sequence& sequence) const {
  const auto num_pages =
      static_cast<size_t>(kv_.num_sealed(sequence.id()) / kPageTokens);
  std::vector<PageKind> kinds = sequence.cached_kinds();
  // One that is read layer by layer has no page before the last layer.
  kinds.resize(std::min(kinds.size(), num_pages));
  while (kinds.size() < num_pages) {
    const std::optional<PageKind> kind = KindOf(sequence, kinds.size());
    if (!kind) break;
    kinds.push_back(*kind);
  }
  return kinds;
}

void PrefixCache::Enter(const Sequence& sequence) {
  if (!TakesPart(sequence)) return;
  const std::string root = RootOf(sequence);
  kv_.Enter(sequence.id(), {root, sequence.tokens()}, KindsOf(sequence));
}

void PrefixCache::Close(const Sequence& sequence, bool leaves_pages) {
  if (!TakesPart(sequence) || !leaves_pages) return kv_.Close(sequence.id());
  const std::string root = RootOf(sequence);
  kv_.Close(sequence.id(), {root, sequence.tokens()}, KindsOf(sequence));
}

void PrefixCache::Park(const Sequence& sequence) {
  if (!CanPark(sequence)) return Close(sequence, /*leaves_pages=*/true);
  std::vector<PageKind> kinds = KindsOf(sequence);
  const int num_pages = kv_.num_sealed(sequence.id()) / kPageTokens;
  kinds.resize(static_cast<size_t>(num_pages), ParkedPage(sequence.id()));
  const std::string root = RootOf(sequence);
  kv_.Close(sequence.id(), {root, sequence.tokens()}, kinds);
}

void PrefixCache::ForgetParked(const Sequence& sequence) {
  if (!CanPark(sequence)) return;
  const std::string root = RootOf(sequence);
  kv_.Forget({root, sequence.tokens()},
             std::array<PageKind, 2>{ParkedPage(sequence.id()), kPromptPage});
}

}  // namespace winnow
