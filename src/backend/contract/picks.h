// What selection yields and attention reads: pieces of pages.
#ifndef WINNOW_BACKEND_CONTRACT_PICKS_H_
#define WINNOW_BACKEND_CONTRACT_PICKS_H_

#include "tensor/view.h"

namespace winnow {

// A selected piece of one page.
struct Pick {
  uint32_t page;    // logical page of the request
  uint32_t tokens;  // bit t: token t of the page is read; never zero

  friend bool operator==(const Pick&, const Pick&) = default;
};

// In num_picks: the list is not written out, every page is read.
inline constexpr int32_t kEveryPage = -1;

// A list of picks a (row, list), on the device: what that row's heads read. A
// row's q heads share its lists evenly: list i serves heads
// [i * heads / lists, (i + 1) * heads / lists). A list's pages ascend; no
// token lies behind the row's position. A row's list depends on no other row,
// whichever rows it is computed with.
struct PickLists {
  int first_row = 0;  // of the step: lists are those of a run of its rows
  View picks;         // Pick as u32 [rows, q_heads, capacity, 2]
  View num_picks;     // i32 [rows, q_heads]: of the row's lists, or kEveryPage
  View num_lists;     // i32 [rows]: 1 (all read everything), kv_heads, q_heads
  // i32 [rows, q_heads]: picks of a list that a layer has kept for those after
  // it (LayerSelector::keeps_lists); or empty, where none does.
  View num_kept = {};
  // Clusters that a list reads as what is kept of them, ascending rows of the
  // selector's summaries; or empty, where no selector estimates.
  View estimates = {};      // i32 [rows, q_heads, capacity of its own]
  View num_estimates = {};  // i32 [rows, q_heads]

  // Those of rows [first, first + count) of the step.
  PickLists Rows(int first, int count) const {
    return {.first_row = first,
            .picks = picks.Slice(first - first_row, count),
            .num_picks = num_picks.Slice(first - first_row, count),
            .num_lists = num_lists.Slice(first - first_row, count),
            .num_kept = HeadBlockOf(num_kept, first, count),
            .estimates = HeadBlockOf(estimates, first, count),
            .num_estimates = HeadBlockOf(num_estimates, first, count)};
  }
  int num_rows() const { return static_cast<int>(num_picks.dim(0)); }
  int64_t capacity() const { return picks.dim(2); }
  Pick* List(int64_t row, int64_t list) const {
    return reinterpret_cast<Pick*>(picks.Row<uint32_t>(row - first_row) +
                                   list * picks.stride[1]);
  }
  int32_t& NumPicks(int64_t row, int64_t list) const {
    return num_picks.Row<int32_t>(row - first_row)[list];
  }
  int32_t& NumKept(int64_t row, int64_t list) const {
    return num_kept.Row<int32_t>(row - first_row)[list];
  }
  int32_t& NumLists(int64_t row) const {
    return num_lists.As<int32_t>()[row - first_row];
  }
  int32_t* Estimates(int64_t row, int64_t list) const {
    return estimates.Row<int32_t>(row - first_row) + list * estimates.stride[1];
  }
  int32_t& NumEstimates(int64_t row, int64_t list) const {
    return num_estimates.Row<int32_t>(row - first_row)[list];
  }

 private:
  View HeadBlockOf(const View& view, int first, int count) const {
    return view.empty() ? View{} : view.Slice(first - first_row, count);
  }
};

// How many picks make a unit, the grain of attention's arithmetic (a CPU has
// greater ones of scattered picks), and how many units a group: docs/design.md
// section 5.
inline constexpr int kUnitPicks = 4;
inline constexpr int kGroupUnits = 32;
// Keys that one prefill row's running state takes in at a time.
inline constexpr int kPromptTileTokens = 128;

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_PICKS_H_
