// What sequences have together of what a selector keeps.
#include <algorithm>

#include "engine/selection/selector_set.h"

namespace winnow {
namespace {

// The token behind which a choice is fixed.
int64_t FixedEnd(const SelectProgram& program, const PrefillRows& prompt) {
  return program.fixed.kind == FixedChoice::Kind::kObserved ? prompt.num_tokens
                                                            : prompt.num_rows;
}

}  // namespace

void SelectorSet::Open(int index, SequenceId id,
                       const SharedSummaries& shared) {
  for (const Kept* kept : StateOf(index).kept()) {
    if (!*kept) continue;
    if (shared.from) {
      kept->segments->Share(*shared.from, id, shared.num_tokens);
    } else {
      kept->segments->Open(id);
    }
  }
}

void SelectorSet::Fork(int index, SequenceId parent, SequenceId id,
                       const PrefillRows& prompt) {
  const State& state = StateOf(index);
  for (const Kept* kept : state.kept()) {
    if (!*kept) continue;
    // All of its words would be written, as none of its parent's may be.
    const bool is_made_anew = kept == &state.fixed_words &&
                              kept->segments->is_open(parent) &&
                              FixedEnd(state.selector.program, prompt) >
                                  kept->segments->num_tokens(parent);
    if (kept->segments->is_open(parent) && !is_made_anew) {
      kept->segments->Fork(parent, id);
    } else {
      kept->segments->Open(id);
    }
  }
}

SharedSummaries SelectorSet::FindShared(
    int index, const KvCache& kv, std::span<const KvBlockId> pages,
    std::span<const SequenceId> makers) const {
  const State& state = StateOf(index);
  SharedSummaries best;
  if (!state.summaries || state.fixed_words) return best;
  const KvCache& segments = *state.summaries.segments;
  const int segment_tokens = state.segment_tokens;
  const auto whole_segments = [segment_tokens](int64_t num_tokens) {
    return static_cast<int>(num_tokens / segment_tokens * segment_tokens);
  };
  const int most = whole_segments(std::ssize(pages) * kPageTokens);
  for (const SequenceId id : segments.sequences()) {
    if (best.num_tokens == most) break;
    const auto same = std::ranges::mismatch(
        pages, kv.pages(id),
        [](KvBlockId a, KvBlockId b) { return a == b && a != kNoKvBlock; });
    const bool makes = std::ranges::find(makers, id) != makers.end();
    const int num_there =
        makes ? segments.num_tokens(id) : segments.num_sealed(id);
    const int num_tokens = whole_segments(
        std::min<int64_t>((same.in1 - pages.begin()) * kPageTokens, num_there));
    if (num_tokens > best.num_tokens) {
      best = {.from = id, .num_tokens = num_tokens};
    }
  }
  return best;
}

void SelectorSet::ShareInStep(int index, SequenceId id, const KvCache& kv,
                              std::span<const SequenceId> makers) {
  State& state = StateOf(index);
  if (!state.summaries) return;
  KvCache& segments = *state.summaries.segments;
  if (segments.num_tokens(id) > 0) return;
  const auto num_begun = static_cast<size_t>(kv.num_sealed(id) / kPageTokens);
  const SharedSummaries shared =
      FindShared(index, kv, kv.pages(id).first(num_begun), makers);
  if (!shared.from) return;
  const int num_there = segments.num_sealed(*shared.from);
  if (num_there < shared.num_tokens) {
    state.first_made.try_emplace(*shared.from, num_there);
    segments.Seal(*shared.from, shared.num_tokens);
  }
  segments.Close(id);
  segments.Share(*shared.from, id, shared.num_tokens);
}

bool SelectorSet::makes_for_others() const {
  return std::ranges::any_of(
      states_, [](const auto& state) { return !state->first_made.empty(); });
}

}  // namespace winnow
