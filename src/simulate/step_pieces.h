// StepPieces: the sub-pages that one Fetch wants, for one layer and KV head.
#ifndef WINNOW_SIMULATE_STEP_PIECES_H_
#define WINNOW_SIMULATE_STEP_PIECES_H_

#include <cstdint>
#include <vector>

#include "simulate/trace.h"

namespace winnow {

struct WantedPiece {
  // The number page * sub-pages a page + index (backend/contract/slot_table.h).
  uint32_t piece = 0;
  // True in the open tail, which is always resident; otherwise it needs a slot.
  bool page_is_whole = false;

  friend bool operator==(const WantedPiece&, const WantedPiece&) = default;
};

// A sub-page that some list names, and the index of the least level that does.
struct RankedPiece {
  uint32_t piece = 0;
  int level = 0;
  // The position of its score between the least and the greatest of its list, 0
  // to 1; the greatest over lists. 1 if all is read, 0 if there is no score.
  float score_share = 0;

  friend bool operator==(const RankedPiece&, const RankedPiece&) = default;
};

struct StepPieces {
  // The positions of its rows.
  int64_t first_position = 0, end_position = 0;
  // In Fetch's order: rows, lists, pages, sub-pages, so sub-pages may repeat.
  // Lists that read all come last.
  std::vector<WantedPiece> picks;
  // In the same order, by HintSource.
  std::vector<WantedPiece> hints;
  // Of offloaded pages, ascending, each once.
  std::vector<RankedPiece> ranked;
};

// The source of hints.
enum class HintSource : uint8_t {
  kNextRanks,      // levels above the budget's, up to hint_level
  kPreviousStep,   // picks of the previous step in this layer
  kPreviousLayer,  // picks of the previous selecting layer in this step
};

struct PieceOptions {
  int slot_tokens = kPageTokens;
  // The index of the greatest level that gives hints; the budget's index: no
  // hints.
  int hint_level = 0;
  HintSource hint_source = HintSource::kNextRanks;
};

// The steps of a request by selecting layer and KV head: [layers *
// kv_heads][steps]. Pages before the page of a step's first row are offloaded.
std::vector<std::vector<StepPieces>> PiecesOf(const TraceHeader& header,
                                              const TraceRequest& request,
                                              const PieceOptions& options);

}  // namespace winnow

#endif  // WINNOW_SIMULATE_STEP_PIECES_H_
