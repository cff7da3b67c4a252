// PieceWalk: the pieces of pages that a step's generated rows name, of one
// request and KV head, for Bring.
#ifndef WINNOW_BACKEND_CPU_PIECE_WALK_H_
#define WINNOW_BACKEND_CPU_PIECE_WALK_H_

#include <array>
#include <bit>

#include "backend/cpu/slot_head.h"
#include "backend/cpu/step_rows.h"
#include "backend/cpu/tile_pages.h"
#include "backend/step.h"

namespace winnow {

// The generated rows of one request that are read.
struct BroughtRows {
  const StepRows& rows;
  const LayerStep& step;
  int request = 0;
  int64_t first_row = 0, end_row = 0;

  BroughtRows(const StepRows& of, const LayerStep& of_step,
              const ReadSource& source, int of_request)
      : rows(of), step(of_step), request(of_request) {
    if (!step.has_generated_rows) return;
    const int64_t first = rows.first_row(request);
    first_row = first + rows.num_prompt_rows(request);
    end_row = first + rows.num_tokens(request);
    if (source.kind == ReadSource::Kind::kAllPages) return;
    const PickLists& lists = source.picks;
    first_row = std::max<int64_t>(first_row, lists.first_row);
    end_row = std::min<int64_t>(end_row, lists.first_row + lists.num_rows());
  }

  int64_t first_position() const { return rows.position(first_row); }
  int64_t end_position() const { return rows.position(end_row - 1) + 1; }
};

// Finding a piece is three loads, each of which says where the next one is:
// entry, tag, age. So pieces wait in a batch until those of all are on their
// way. REQUIRES: what it is given outlives the walk.
class PieceWalk {
 public:
  PieceWalk(const BroughtRows& of, const LayerCache& cache,
            const SlotHead& head, int kv_head)
      : of_(of),
        cache_(cache),
        head_(head),
        kv_head_(kv_head),
        page_table_(cache.page_table.Row<uint32_t>(of.request)) {}

  // visit(piece, entry) for every piece that a source names, which a row sees
  // and whose page is not whole: by rows, lists, ranks and pieces; then what is
  // read whole, by pages. Returns how many pieces there were of whole pages.
  template <typename Visit>
  int64_t ForEachPiece(const ReadSource& source, Visit&& visit) {
    num_whole_ = 0;
    int64_t first_whole = 0, end_whole = 0;  // tokens
    for (int64_t row = of_.first_row; row < of_.end_row; ++row) {
      const int64_t position = of_.rows.position(row);
      const int64_t first = FirstVisible(position, of_.step.window);
      const auto add_whole = [&] {
        if (first_whole == end_whole) first_whole = first;
        end_whole = position + 1;
      };
      if (source.kind == ReadSource::Kind::kAllPages) {
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
        const Pick* picks = lists.List(row, list);
        for (int32_t i = 0; i < num_picks; ++i) {
          AddPage(picks[i].page,
                  picks[i].tokens & TokensIn(picks[i].page, first, position),
                  visit);
        }
      }
    }
    for (int64_t page = first_whole / kPageTokens;
         page * kPageTokens < end_whole; ++page) {
      AddPage(page, TokensIn(page, first_whole, end_whole - 1), visit);
    }
    VisitBatch(visit);
    return num_whole_;
  }

 private:
  static constexpr size_t kBatchPieces = 128;

  template <typename Visit>
  void AddPage(int64_t page, uint32_t tokens, Visit&& visit) {
    if (tokens == 0) return;
    CHECK(page < cache_.page_table.dim(1), "page={} page_table {}", page,
          ToString(cache_.page_table));
    const int slot_tokens = cache_.format.slot_tokens;
    const uint32_t mask = ~uint32_t{0} >> (kPageTokens - slot_tokens);
    const bool is_whole = page_table_[page] != kNotWhole;
    uint16_t* entry = is_whole ? nullptr : &head_.Entry(page, 0);
    for (uint32_t piece = head_.PieceNumber(page, 0); tokens != 0; ++piece) {
      if ((tokens & mask) != 0) {
        if (is_whole) {
          ++num_whole_;
        } else {
          Add(piece, entry, visit);
        }
      }
      if (!is_whole) ++entry;
      tokens = slot_tokens == kPageTokens ? 0 : tokens >> slot_tokens;
    }
  }

  template <typename Visit>
  void Add(uint32_t piece, uint16_t* entry, Visit&& visit) {
    if (count_ == kBatchPieces) VisitBatch(visit);
    __builtin_prefetch(entry, /*rw=*/1);
    pieces_[count_] = piece;
    entries_[count_++] = entry;
  }

  template <typename Visit>
  void VisitBatch(Visit&& visit) {
    for (size_t i = 0; i < count_; ++i) head_.FetchAhead(*entries_[i]);
    for (size_t i = 0; i < count_; ++i) visit(pieces_[i], *entries_[i]);
    count_ = 0;
  }

  const BroughtRows& of_;
  const LayerCache& cache_;
  const SlotHead& head_;
  const int kv_head_;
  const uint32_t* const page_table_;
  int64_t num_whole_ = 0;
  size_t count_ = 0;
  std::array<uint32_t, kBatchPieces> pieces_;
  std::array<uint16_t*, kBatchPieces> entries_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_PIECE_WALK_H_
