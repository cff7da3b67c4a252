// What one Fetch is asked for, of one layer and KV head: pieces of pages.
#ifndef WINNOW_SIMULATE_STEP_PIECES_H_
#define WINNOW_SIMULATE_STEP_PIECES_H_

#include <cstdint>
#include <vector>

#include "simulate/trace.h"

namespace winnow {

struct WantedPiece {
  uint32_t piece =
      0;  // page * pieces a page + index (backend/contract/slot_table.h)
  // Of the open tail, which is always whole; else it needs a slot.
  bool page_is_whole = false;

  friend bool operator==(const WantedPiece&, const WantedPiece&) = default;
};

// A piece that some list names, and the least level that does, an index.
struct RankedPiece {
  uint32_t piece = 0;
  int level = 0;
  // Where its score lies between the least and the greatest that its list
  // records, 0 to 1, the greatest over lists; 1 where all is read, 0 where
  // there is none.
  float score_share = 0;

  friend bool operator==(const RankedPiece&, const RankedPiece&) = default;
};

struct StepPieces {
  // Positions of its rows.
  int64_t first_position = 0, end_position = 0;
  // As Fetch walks them: by rows, lists, pages and pieces, so pieces may
  // repeat; what is read whole comes last.
  std::vector<WantedPiece> picks;
  // In the same order, what HintSource says.
  std::vector<WantedPiece> hints;
  // Of pages that are not whole, ascending, each once.
  std::vector<RankedPiece> ranked;
};

// What hints are made of.
enum class HintSource : uint8_t {
  kNextRanks,      // levels behind the budget, up to the hints' level
  kPreviousStep,   // what the step before picked, in this layer
  kPreviousLayer,  // what the choosing layer before picked, in this step
};

struct PieceOptions {
  int slot_tokens = kPageTokens;
  // The level up to which next ranks are hints, an index; the budget's: none.
  int hint_level = 0;
  HintSource hint_source = HintSource::kNextRanks;
};

// By layer that chooses and KV head, the steps of a request: [layers *
// kv_heads][steps]. Pages before the one in which a step's first row stands are
// not whole.
std::vector<std::vector<StepPieces>> PiecesOf(const TraceHeader& header,
                                              const TraceRequest& request,
                                              const PieceOptions& options);

}  // namespace winnow

#endif  // WINNOW_SIMULATE_STEP_PIECES_H_
