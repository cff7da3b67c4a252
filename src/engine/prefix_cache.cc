#include "engine/prefix_cache.h"

#include <algorithm>

#include "engine/key_bytes.h"

namespace winnow {
namespace {

constexpr PageKind kPromptPage = 0;

// Of pages with generated rows; selector -1, dense, has one too.
PageKind GeneratedPage(int selector) {
  return static_cast<PageKind>(selector + 2);
}

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

PrefixHit PrefixCache::Find(const Sequence& sequence) const {
  // A choice that is fixed from what the prompt's rows ask needs all of them.
  const Selector* selector = SelectorOf(sequence);
  if (selector != nullptr &&
      selector->program.fixed.kind != FixedChoice::Kind::kNone) {
    return {};
  }
  const int num_tokens =
      std::min(sequence.num_prompt_rows(), sequence.num_prompt_tokens() - 1);
  std::vector<PageKind> kinds = {kPromptPage};
  if (!options_.batch_invariant) {
    kinds.push_back(GeneratedPage(sequence.request().selector));
  }
  const std::string root = PrefixRoot(sequence, selector);
  return kv_.prefixes().Find({root, sequence.tokens()},
                             static_cast<size_t>(num_tokens / kPageTokens),
                             kinds);
}

int64_t PrefixCache::NumSharedPages(const Sequence& sequence) const {
  if (!TakesPart(sequence)) return 0;
  return kv_.prefixes().NumUsed(Find(sequence).extents);
}

void PrefixCache::Open(Sequence& sequence) {
  if (!TakesPart(sequence)) return kv_.Open(sequence.id());
  PrefixHit hit = Find(sequence);
  kv_.Open(sequence.id(), hit);
  sequence.BeginCached(std::move(hit.kinds), std::ssize(hit.host_extents));
}

std::vector<PageKind> PrefixCache::KindsOf(const Sequence& sequence) const {
  const int num_pages = kv_.num_sealed(sequence.id()) / kPageTokens;
  std::vector<PageKind> kinds = sequence.cached_kinds();
  for (int page = static_cast<int>(kinds.size()); page < num_pages; ++page) {
    const bool is_prompt =
        (page + 1) * kPageTokens <= sequence.num_prompt_rows();
    if (!is_prompt && options_.batch_invariant) break;
    kinds.push_back(is_prompt ? kPromptPage
                              : GeneratedPage(sequence.request().selector));
  }
  return kinds;
}

void PrefixCache::Enter(const Sequence& sequence) {
  if (!TakesPart(sequence)) return;
  const std::string root = PrefixRoot(sequence, SelectorOf(sequence));
  kv_.Enter(sequence.id(), {root, sequence.tokens()}, KindsOf(sequence));
}

void PrefixCache::Close(const Sequence& sequence, bool leaves_pages) {
  if (!TakesPart(sequence) || !leaves_pages) return kv_.Close(sequence.id());
  const std::string root = PrefixRoot(sequence, SelectorOf(sequence));
  kv_.Close(sequence.id(), {root, sequence.tokens()}, KindsOf(sequence));
}

}  // namespace winnow
