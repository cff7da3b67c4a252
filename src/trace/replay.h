// A recorded request through slots that do not hold all of it.
#ifndef WINNOW_TRACE_REPLAY_H_
#define WINNOW_TRACE_REPLAY_H_

#include "kv/slot_budget.h"
#include "trace/slot_cache.h"
#include "trace/trace.h"

namespace winnow {

// A request cut into pieces once, for all that is tried on it.
struct ReplayInput {
  // REQUIRES: both outlive this.
  ReplayInput(const TraceHeader& of, const TraceRequest& traced,
              const PieceOptions& piece_options)
      : header(of),
        request(traced),
        options(piece_options),
        pieces(PiecesOf(of, traced, piece_options)) {}

  const TraceHeader& header;
  const TraceRequest& request;
  const PieceOptions options;
  const std::vector<std::vector<StepPieces>> pieces;
};

struct ReplayOptions {
  SlotRuleOptions rule;  // num_levels is the trace's
  CacheBudget budget;
  // Rows at a request's beginning that are brought for but not counted: they
  // fill the slots.
  int warm_rows = 0;
  // Every so many rows frames move between layers (Redistribute), with kAge,
  // kKeep, kHold and kHint; 0: never.
  int resize_rows = 0;
  // What more frames would spare is counted, not drawn on: by as many slots as
  // a layer may have at most, which hold no bytes.
  bool ghosts = false;
};

// Of all rows that count.
struct ReplayTotals {
  SlotCounts counts;
  int64_t num_rows = 0;
  int64_t context_tokens = 0;  // summed over rows
  // Read by rows, summed over choosing layers and KV heads; where several lists
  // are a KV head's, each.
  int64_t read_tokens = 0;
  // Slots that there were, in tokens, summed over rows and choosing layers.
  int64_t slot_tokens = 0;

  void Add(const ReplayTotals& other);
  // Of what needs a slot, the share that is near; 1 where nothing does.
  double hit_rate() const;
};

// The most tokens that one list reads, of those that do not read all.
int64_t MostSelected(const TraceHeader& header, const TraceRequest& request);

// Frames of a choosing layer, as the budget says: one at least, at most what
// entries can tell apart.
int FramesOf(const ReplayInput& input, const CacheBudget& budget);

// One request by itself, as slots are private: what a batch of them brings is
// the sum. Layers without choice do not take part. Slots are owned by
// kv/slot_ledger.h, as many in each choosing layer as the budget says; what is
// near, and what makes room, says SlotRule. All slots are empty at first.
ReplayTotals Replay(const ReplayInput& input, const ReplayOptions& options);

}  // namespace winnow

#endif  // WINNOW_TRACE_REPLAY_H_
