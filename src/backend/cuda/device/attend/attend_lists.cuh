// What a row reads, on the device: its picks by rank, or every page.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_LISTS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_LISTS_CUH_

#include "backend/cuda/device/rows/step_rows.cuh"

namespace winnow::device {

inline constexpr int kAttendPageTokens = 32;
inline constexpr int kAttendUnitPages = 4;
inline constexpr int kAttendGroupUnits = 32;
inline constexpr int kAttendUnitTokens = kAttendPageTokens * kAttendUnitPages;

// PickLists (backend/contract/picks.h). Without picks every page is read.
struct AttendLists {
  const uint32_t* picks;     // [rows, q_heads, capacity, 2], or null
  const int32_t* num_picks;  // [rows, q_heads]
  const int32_t* num_lists;  // [rows]
  int64_t picks_row_stride, picks_list_stride, num_picks_stride;
  int first_row;  // of the step: rows [first_row, first_row + num_rows) are
                  // read
  int num_rows;
  int num_heads;  // q heads

  __device__ int NumLists(int row) const {
    return picks == nullptr ? 1 : num_lists[row - first_row];
  }
};

// Some tokens of one page. No token: no page.
struct PageTokens {
  int page;
  uint32_t tokens;  // bit t: token t
};

// What one row and list reads. Dense is the list of every page.
struct RowAttention {
  const uint32_t* list;  // [num_picks, 2], or null: every page
  int num_picks;
  int first_token, end_token;  // the row sees [first_token, end_token)

  __device__ RowAttention(const StepRows& rows, const AttendLists& lists,
                          int row, int index)
      : list(nullptr), num_picks(0) {
    const int position = rows.Position(row);
    first_token = rows.FirstVisible(position);
    end_token = position + 1;
    if (lists.picks == nullptr) return;
    const int64_t r = row - lists.first_row;
    num_picks = lists.num_picks[r * lists.num_picks_stride + index];
    if (num_picks < 0) return;
    list = lists.picks + r * lists.picks_row_stride +
           index * lists.picks_list_stride;
  }

  // Its units, by rank: [first_unit(), end_unit()), one at least. Those in
  // front of a window are left out where every page is read.
  __device__ int first_unit() const {
    return list == nullptr ? first_token / kAttendUnitTokens : 0;
  }
  __device__ int end_unit() const {
    if (list == nullptr) {
      return (end_token + kAttendUnitTokens - 1) / kAttendUnitTokens;
    }
    return num_picks == 0
               ? 1
               : (num_picks + kAttendUnitPages - 1) / kAttendUnitPages;
  }

  // The tokens of a page that the row sees.
  __device__ uint32_t Visible(int page) const {
    const int from = first_token - page * kAttendPageTokens;
    const int to = end_token - page * kAttendPageTokens;
    if (to <= 0 || from >= kAttendPageTokens) return 0;
    const uint32_t behind = from <= 0 ? ~0u : ~0u << from;
    return to >= kAttendPageTokens ? behind : behind & ((1u << to) - 1);
  }
  __device__ PageTokens Page(int page) const { return {page, Visible(page)}; }
  // The pick of a rank below num_picks.
  __device__ PageTokens Picked(int rank) const {
    const int page = static_cast<int>(list[2 * rank]);
    return {page, list[2 * rank + 1] & Visible(page)};
  }
  // The page of a rank.
  __device__ PageTokens Ranked(int rank) const {
    if (list == nullptr) return Page(rank);
    return rank < num_picks ? Picked(rank) : PageTokens{0, 0};
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_LISTS_CUH_
