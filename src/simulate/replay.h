// Replay: simulates a recorded request whose cache slots do not hold all of it.
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

// A request split into sub-pages once, for all simulations of it.
struct ReplayInput {
  // REQUIRES: `of` and `traced` outlive this.
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

// The initial content of cache slots, which a request gets behind its first
// row. It is nothing, the newest closed pages, the row's picks, or its picks
// and then its hints. As many as there are slots.
enum class FirstSlots : uint8_t { kEmpty, kNewest, kPicks, kRanks };
inline constexpr std::array<std::string_view, 4> kFirstSlotsNames = {
    "empty", "newest", "picks", "ranks"};

struct ReplayOptions {
  SlotRuleOptions rule;  // num_levels is the trace's
  CacheBudget budget;
  // Rows at a request's beginning that fill the slots and are not counted.
  int warm_rows = 0;
  // Slot blocks move between layers every `resize_rows` rows (Redistribute),
  // with kAge, kKeep, kHold and kHint; 0: never.
  int resize_rows = 0;
  // Counts the saving of further slot blocks by tags without bytes, up to the
  // greatest number of slots of a layer, instead of extrapolating it.
  bool ghosts = false;
  // None: slots exist from the first row on and are empty. Otherwise the first
  // row is not counted. REQUIRES of all but kEmpty: the rule does not know the
  // future.
  std::optional<FirstSlots> first_slots = {};
  int max_rows = std::numeric_limits<int>::max();  // of a request
};

// Sums over all counted rows.
struct ReplayTotals {
  SlotCounts counts;
  int64_t num_rows = 0;
  int64_t context_tokens = 0;  // summed over rows
  // Tokens read, summed over selecting layers and KV heads; each list of a KV
  // head counts.
  int64_t read_tokens = 0;
  // Slots in tokens, summed over rows and selecting layers.
  int64_t slot_tokens = 0;

  void Add(const ReplayTotals& other);
  // The share of wanted sub-pages that a slot holds; 1 if none is wanted.
  double hit_rate() const;
};

// The greatest number of tokens in one list, without lists that read all.
int64_t MostSelected(const TraceHeader& header, const TraceRequest& request);

// Slot blocks of a selecting layer for the budget: at least one, and no more
// than slot entries can number.
int FramesOf(const ReplayInput& input, const CacheBudget& budget);

// Simulates one request. Slots are private, so the traffic of a batch is the
// sum. Dense layers take no part. kv/slot_ledger.h owns the slots, the same
// number in each selecting layer. `rule` decides which sub-pages stay. All
// slots are empty at first.
ReplayTotals Replay(const ReplayInput& input, const ReplayOptions& options);

}  // namespace winnow

#endif  // WINNOW_SIMULATE_REPLAY_H_
