// PieceWalk: the pieces of pages that a step's decode rows name, of one
// request and KV head, for Fetch.
#ifndef WINNOW_BACKEND_CPU_ATTEND_PIECE_WALK_H_
#define WINNOW_BACKEND_CPU_ATTEND_PIECE_WALK_H_

#include <bit>
#include <span>

#include "backend/contract/step.h"
#include "backend/cpu/attend/slot_head.h"
#include "backend/cpu/attend/tile_pages.h"
#include "backend/cpu/step_rows.h"

namespace winnow {

// The decode rows of one request that are read.
struct BroughtRows {
  const StepRows& rows;
  const LayerStep& step;
  int request = 0;
  int64_t first_row = 0, end_row = 0;

  BroughtRows(const StepRows& of, const LayerStep& of_step,
              const AttendSource& source, int of_request)
      : rows(of), step(of_step), request(of_request) {
    if (!step.has_decode_rows) return;
    const int64_t first = rows.first_row(request);
    first_row = first + rows.num_prefill_rows(request);
    end_row = first + rows.num_tokens(request);
    if (source.kind == AttendSource::Kind::kAllPages) return;
    const PickLists& lists = source.picks;
    first_row = std::max<int64_t>(first_row, lists.first_row);
    end_row = std::min<int64_t>(end_row, lists.first_row + lists.num_rows());
  }

  int64_t first_position() const { return rows.position(first_row); }
  int64_t end_position() const { return rows.position(end_row - 1) + 1; }
};

// Finds pieces one after another, by three loads each, entry, tag and age, that
// wait for no other piece's. (Pieces in batches, so that their entries, then
// their tags are all on their way, take twice the instructions, and no less
// time where tables are far away: who knows which head is next fetches all of
// its tables ahead.) REQUIRES: what it is given outlives the walk.
class PieceWalk {
 public:
  PieceWalk(const BroughtRows& of, const LayerCache& cache,
            const SlotHead& head, int kv_head)
      : of_(of),
        cache_(cache),
        head_(head),
        kv_head_(kv_head),
        page_table_(cache.page_table.Row(of.request)) {}

  // visit(head, piece, entry) for every piece that a source names, which a row
  // sees and whose page is not whole: by rows, lists, ranks and pieces; then
  // what is read whole, by pages. Returns how many pieces there were of whole
  // pages.
  template <typename Visit>
  int64_t ForEachPiece(const AttendSource& source, Visit& visit) {
    num_whole_ = 0;
    int64_t first_whole = 0, end_whole = 0;  // tokens
    for (int64_t row = of_.first_row; row < of_.end_row; ++row) {
      const int64_t position = of_.rows.position(row);
      const int64_t first = FirstVisible(position, of_.step.window);
      const auto add_whole = [&] {
        if (first_whole == end_whole) first_whole = first;
        end_whole = position + 1;
      };
      if (source.kind == AttendSource::Kind::kAllPages) {
        add_whole();
        continue;
      }
      const PickLists& lists = source.picks;
      const int64_t num_lists = lists.NumLists(row);
      const int64_t num_heads = lists.num_picks.dim(1);
      const int64_t group = num_heads / cache_.num_kv_heads;
      const int64_t first_list = kv_head_ * group * num_lists / num_heads;
      const int64_t last_list =
          ((kv_head_ + 1) * group - 1) * num_lists / num_heads;
      for (int64_t list = first_list; list <= last_list; ++list) {
        const int32_t num_picks = lists.NumPicks(row, list);
        if (num_picks == kEveryPage) {
          add_whole();
          continue;
        }
        VisitPicks({lists.List(row, list), static_cast<size_t>(num_picks)},
                   first, position, visit);
      }
    }
    for (int64_t page = first_whole / kPageTokens;
         page * kPageTokens < end_whole; ++page) {
      const Pick pick = {static_cast<uint32_t>(page), ~uint32_t{0}};
      VisitPicks({&pick, 1}, first_whole, end_whole - 1, visit);
    }
    return num_whole_;
  }

 private:
  // Those of their tokens that are in [first, last].
  template <typename Visit>
  void VisitPicks(std::span<const Pick> picks, int64_t first, int64_t last,
                  Visit& visit) {
    switch (head_.pieces_a_page()) {
      case 1:
        return VisitPicksOf<1>(picks, first, last, visit);
      case 2:
        return VisitPicksOf<2>(picks, first, last, visit);
      default:
        return VisitPicksOf<4>(picks, first, last, visit);
    }
  }

  template <int kPieces, typename Visit>
  void VisitPicksOf(std::span<const Pick> picks, int64_t first, int64_t last,
                    Visit& shared) {
    Visit visit = shared;
    // A copy: what a visit writes is none of it, as a compiler sees.
    const SlotHead head = head_.OfPieces<kPieces>();
    const uint32_t* const page_table = page_table_;
    const int64_t first_page = first / kPageTokens;
    const int64_t last_page = last / kPageTokens;
    const int64_t num_pages = cache_.max_pages;
    constexpr int kSlotTokens = kPageTokens / kPieces;
    constexpr uint32_t kMask = ~uint32_t{0} >> (kPageTokens - kSlotTokens);
    int64_t segment = -1, num_whole = 0;
    uint16_t* of_segment = nullptr;
    for (const Pick& pick : picks) {
      const int64_t page = pick.page;
      uint64_t tokens = pick.tokens;
      if (page <= first_page || page >= last_page) {
        tokens &= TokensIn(page, first, last);
      }
      if (tokens == 0) continue;
      CHECK(page < num_pages, "page={} pages={}", page, num_pages);
      if (page_table[page] != kNotWhole) {
        for (; tokens != 0; tokens >>= kSlotTokens) {
          num_whole += (tokens & kMask) != 0;
        }
        continue;
      }
      if (page / kSegmentPages != segment) {
        segment = page / kSegmentPages;
        of_segment = head.SegmentEntries(segment);
      }
      const uint32_t piece = head.PieceNumber(page, 0);
      uint16_t* entry = of_segment + head.PieceNumber(page % kSegmentPages, 0);
      // As often as there are pieces: which ones, a branch would not foresee.
      while (tokens != 0) {
        const auto index =
            static_cast<uint32_t>(std::countr_zero(tokens)) / kSlotTokens;
        visit(head, piece + index, entry[index]);
        tokens &= ~uint64_t{0} << (index + 1) * kSlotTokens;
      }
    }
    num_whole_ += num_whole;
    shared.Take(visit);
  }

  const BroughtRows& of_;
  const LayerCache& cache_;
  const SlotHead& head_;
  const int kv_head_;
  const uint32_t* const page_table_;
  int64_t num_whole_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_PIECE_WALK_H_
