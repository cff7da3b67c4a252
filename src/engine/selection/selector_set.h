// SelectorSet: the selectors that an engine's requests may choose with, and
// what they keep of each sequence.
#ifndef WINNOW_ENGINE_SELECTION_SELECTOR_SET_H_
#define WINNOW_ENGINE_SELECTION_SELECTOR_SET_H_

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/contract/replacement.h"
#include "cache/device/summary_cache.h"
#include "kv/kv_cache.h"
#include "kv/table_capacity.h"
#include "model/forward/model.h"
#include "model/forward/transformer.h"
#include "model/weights/gates.h"
#include "sparse/spec/selector.h"

namespace winnow {

struct SelectorSetOptions {
  std::vector<std::string> specs;
  int max_model_len = 0;
  int max_requests = 0;  // in one step
  int max_rows = 0;      // a step
  // What sequences may have; as many prefixes as they are may be held besides.
  TableCapacity room = {};
};

// Summaries that a sequence has already, of tokens that another begins with.
struct SharedSummaries {
  std::optional<SequenceId> from;
  int num_tokens = 0;  // whole segments
};

// Of a sequence's prompt: its tokens, and those of them that are prefill rows.
struct PrefillRows {
  int num_tokens = 0;
  int num_rows = 0;
};

// What Fetch is told of the ranks behind a selection, where pages are not
// whole.
struct HintOptions {
  // Up to so many times the budget they are hints; at most 1: there are none.
  double budget_times = 3;
  // As FetchArgs has it. A hint is fetched in the step as a miss is, so
  // fetching one saves nothing; keeping what is near does
  // (docs/decisions/101-replacement.md).
  int least_age = kNoHintFetch;
};

// What selectors may know of a model.
SelectorShape SelectorShapeOf(const Model& model, int max_model_len);

// Owns selectors, their summaries and the memory of the lists. A sequence has
// summaries for all tokens up to num_summarized(); the first step that names it
// brings the rest, from its pages. There are as many segments as device and
// host can hold pages for: enough for whoever shares no page; those who do may
// lack some (CanGrow), where they do not share summaries as well. Used by the
// engine's thread alone.
class SelectorSet {
 public:
  // REQUIRES: backend outlives the set. Fails where a SPEC is wrong or memory
  // does not suffice.
  static Result<std::unique_ptr<SelectorSet>> Create(
      Backend& backend, const Model& model, const SelectorSetOptions& options);

  // From now on selection() has hints, if the device knows next ranks.
  // Fails where memory does not suffice.
  Status AddHints(Backend& backend, const Model& model,
                  const SelectorSetOptions& options, const HintOptions& hints);

  int size() const { return static_cast<int>(states_.size()); }
  const Selector& selector(int index) const { return StateOf(index).selector; }

  // A sequence that `index` chooses for begins; with what is shared, if that is
  // FindShared's of just now.
  void Open(int index, SequenceId id, const SharedSummaries& shared = {});
  // It takes over what is kept of `parent`, if that is open with the same one;
  // but for a choice that its own prompt makes anew.
  void Fork(int index, SequenceId parent, SequenceId id,
            const PrefillRows& prompt);
  void Close(int index, SequenceId id);
  // Of sequences that are open with `index`, who has the most summaries of
  // what lies in `pages`, in which another is about to begin. A choice that is
  // fixed is nobody else's.
  // Of `makers` all that they have segments for counts as there.
  SharedSummaries FindShared(int index, const KvCache& kv,
                             std::span<const KvBlockId> pages,
                             std::span<const SequenceId> makers = {}) const;
  // A sequence without summaries, in its first step, takes over what others
  // have of the pages that it begins with, also what `makers` make in that very
  // step: in each layer summaries are made before they are scored. REQUIRES:
  // the step runs all layers, behind none that is under way; makers, in it too,
  // have grown for it.
  void ShareInStep(int index, SequenceId id, const KvCache& kv,
                   std::span<const SequenceId> makers);
  // Whether the coming step, or one under way, makes summaries that another
  // sequence in it has taken over.
  bool makes_for_others() const;
  // Segments of `num_tokens`; 0 where the selector keeps no summaries.
  int64_t NumSegments(int index, int64_t num_tokens) const;
  // Those that `num_tokens` fill.
  int64_t NumFullSegments(int index, int64_t num_tokens) const;
  // By selector, how many may be promised: those that there are, and what is
  // held more than once again for each but the first who holds it.
  std::vector<int64_t> NumPromisableSegments() const;
  // Whether there are segments for sequences that will have so many tokens.
  // REQUIRES: all are open with `index`, each named once.
  bool CanGrow(int index, std::span<const Growth> totals) const;
  // It will have `num_tokens`: their segments, copied on write where shared.
  // REQUIRES: CanGrow.
  void Grow(Queue& queue, int index, SequenceId id, int num_tokens);
  // Summaries of its first `num_tokens` exist.
  void Seal(int index, SequenceId id, int num_tokens);
  // Forgets what is kept of tokens from `num_tokens` on, with the segments that
  // hold no others: as KvCache::Truncate of their KV, for who rolls back.
  // REQUIRES: as there; a choice that is fixed was fixed by tokens before.
  void Truncate(int index, SequenceId id, int num_tokens);
  // From which token on the next step must summarise.
  int num_summarized(int index, SequenceId id) const;
  // Whether tokens [first, end) may complete a summary, or a choice that is
  // fixed behind one of them.
  bool Completes(int index, int first, int end) const;
  // The first token whose key is still to be summarised, of a sequence with
  // `num_computed`, the whole prompt among them: those before it are read as
  // picks alone. REQUIRES: no summary is the key itself.
  int64_t FirstTokenToRead(int index, SequenceId id, int num_computed) const;

  // The same of a sequence all of whose `num_tokens` have been summarised.
  int64_t FirstUnsummarized(int index, int num_tokens) const;

  // Whose turn in a step is which request, and by which selector, or -1.
  struct StepRequest {
    SequenceId id;
    int selector = -1;
  };
  // Makes the tables say where the requests' segments are.
  void WriteTables(Queue& queue, std::span<const StepRequest> requests);
  // Whether a selector looks at q before RoPE.
  bool has_gates() const { return gates_.has_value(); }

  // Without the views of a step.
  Selection selection() const;

  // What holds of segments, for tests: see kv/invariants.h. Null where the
  // selector keeps nothing.
  const KvCache* segments(int index) const {
    return StateOf(index).summaries.segments.get();
  }
  const KvCache* fixed_queries(int index) const {
    return StateOf(index).fixed_queries.segments.get();
  }
  const KvCache* fixed_words(int index) const {
    return StateOf(index).fixed_words.segments.get();
  }

 private:
  // What is kept of sequences on the device, and whose it is.
  struct Kept {
    std::unique_ptr<KvCache> segments;
    std::unique_ptr<SummaryCache> cache;

    explicit operator bool() const { return segments != nullptr; }
  };
  // Summaries, segment by segment; the queries that make a choice once, one
  // segment a sequence, and what it has fixed. Null where a selector keeps
  // none.
  struct State {
    Selector selector;
    Kept summaries;
    int segment_tokens = 0;
    Kept fixed_queries;
    Kept fixed_words;
    FixedLayout fixed_layout;
    // Of sequences that make summaries which others have taken over already,
    // sealed ahead of the step that makes them: from which token on they do.
    std::map<SequenceId, int> first_made;

    // The last one has less than the others where a fork has begun.
    std::array<const Kept*, 3> kept() const {
      return {&summaries, &fixed_queries, &fixed_words};
    }
  };

  SelectorSet() = default;
  const State& StateOf(int index) const {
    return *states_[static_cast<size_t>(index)];
  }
  State& StateOf(int index) { return *states_[static_cast<size_t>(index)]; }
  static Status AllocateKept(Backend& backend, const Model& model,
                             const SelectorSetOptions& options, State& state);
  // Refuses what the device does not run; reads gates where they are wanted.
  Status Prepare(Backend& backend, const Model& model,
                 const Selector& selector);
  void AddLayers(int num_layers);
  Status AllocateEstimates(Backend& backend, const Model& model,
                           const SelectorSetOptions& options, int64_t num_rows);
  Status AllocateLists(Backend& backend, const Model& model,
                       const SelectorSetOptions& options);

  std::vector<std::unique_ptr<State>> states_;
  std::vector<LayerSelector> layers_;  // [num_layers, selectors]
  std::optional<Gates> gates_;
  Buffer lists_;
  PickLists picks_;
  Buffer hint_lists_;
  PickLists hints_;
  HintOptions hint_options_;
  // Where a selector estimates: see Selection.
  Buffer estimates_;
  std::array<View, 2> outs_, lses_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_SELECTION_SELECTOR_SET_H_
