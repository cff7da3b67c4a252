// A recorded request through slots that do not hold all of it.
#ifndef WINNOW_SIMULATE_REPLAY_H_
#define WINNOW_SIMULATE_REPLAY_H_

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "kv/slot_budget.h"
#include "simulate/slot_cache.h"
#include "simulate/trace.h"

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

// What slots hold at first of a request that gets them behind its first row:
// nothing, the newest pages that are closed, what that row picked, or that and
// then its hints. As many as there are slots.
enum class FirstSlots : uint8_t { kEmpty, kNewest, kPicks, kRanks };
inline constexpr std::array<std::string_view, 4> kFirstSlotsNames = {
    "empty", "newest", "picks", "ranks"};

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
  // None: slots are there from the first row on, and empty. Else that row is
  // left out. REQUIRES of more than kEmpty: the rule knows no future.
  std::optional<FirstSlots> first_slots = {};
  int max_rows = std::numeric_limits<int>::max();  // of a request
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

#endif  // WINNOW_SIMULATE_REPLAY_H_
