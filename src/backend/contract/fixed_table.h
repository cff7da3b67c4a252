// What requests keep for themselves where a choice is made once and stays
// (FixedChoice), as plain data that kernels read: filled in by cache/.
#ifndef WINNOW_BACKEND_CONTRACT_FIXED_TABLE_H_
#define WINNOW_BACKEND_CONTRACT_FIXED_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/contract/row_table.h"
#include "backend/contract/select_program.h"
#include "tensor/view.h"

namespace winnow {

// The heads that a choice is made for.
struct FixedShape {
  int num_q_heads = 0;
  int num_kv_heads = 0;
  int k_dim = 0;
  Dtype q_dtype = Dtype::kBFloat16;
};

// Which tokens a choice has fixed is kept by segments of so many pages, a bit
// a token: a request has them for the tokens that it has.
inline constexpr int kFixedSegmentPages = 32;

// The bytes of one (segment, layer, KV head), the words of its lists; and of
// one (request, layer, KV head), the last queries of its heads.
struct FixedLayout {
  int num_lists = 0;      // 1, or the group's heads; 0: nothing is fixed
  int window_tokens = 0;  // whose queries are kept
  int group_heads = 0;
  int k_dim = 0;
  Dtype q_dtype = Dtype::kBFloat16;
  int64_t words_bytes = 0;    // u32 [num_lists, kFixedSegmentPages]
  int64_t queries_bytes = 0;  // 0: none are kept
};

FixedLayout MakeFixedLayout(const SelectProgram& program,
                            const FixedShape& shape);

// The words of one list of a request.
struct FixedTokens {
  std::byte* words = nullptr;  // of segment 0 of all
  int64_t segment_stride_bytes = 0;
  const uint32_t* segments = nullptr;  // of the request

  explicit operator bool() const { return segments != nullptr; }
  // Bit t: token t of the page is always read. REQUIRES: the request has the
  // page.
  uint32_t& operator[](int64_t page) const {
    return reinterpret_cast<uint32_t*>(
        words + segments[page / kFixedSegmentPages] *
                    segment_stride_bytes)[page % kFixedSegmentPages];
  }
  // Calls f(first page, words) for the pages [0, num_pages), those of a segment
  // at a time. REQUIRES: as above.
  template <typename F>
  void ForEachSegment(int64_t num_pages, F&& f) const {
    for (int64_t first = 0; first < num_pages; first += kFixedSegmentPages) {
      const int64_t count =
          std::min<int64_t>(num_pages - first, kFixedSegmentPages);
      f(first,
        std::span<const uint32_t>(&(*this)[first], static_cast<size_t>(count)));
    }
  }
  // Calls f(page, tokens) for those of the pages [0, num_pages) that have a
  // fixed token. REQUIRES: as above.
  template <typename F>
  void ForEachPage(int64_t num_pages, F&& f) const {
    constexpr size_t kPassedPages = 8;  // at a time: most have none
    ForEachSegment(
        num_pages, [&](int64_t first, std::span<const uint32_t> of_segment) {
          for (size_t i = 0; i < of_segment.size(); i += kPassedPages) {
            const size_t end = std::min(i + kPassedPages, of_segment.size());
            uint32_t any = 0;
            for (size_t j = i; j < end; ++j) any |= of_segment[j];
            if (any == 0) continue;
            for (size_t j = i; j < end; ++j) {
              if (of_segment[j] != 0)
                f(first + static_cast<int64_t>(j), of_segment[j]);
            }
          }
        });
  }
};

// One layer's, of one selector, of every request in a step. Where queries
// choose, a request has one slot for them for its life, and a copy of it goes
// to what is forked from it.
struct FixedTable {
  FixedLayout layout;
  std::byte* words = nullptr;
  int64_t segment_stride_bytes = 0;
  RowTable segments;  // by request, as many as it has tokens for
  std::byte* slots = nullptr;
  int64_t slot_stride_bytes = 0;
  RowTable slot_of_request;  // one a request

  // List `list` of a KV head: its own, or that of its q head number `list`.
  FixedTokens Tokens(int request, int kv_head, int list) const;
  // [window_tokens, group_heads, k_dim]: of position p at p % window_tokens.
  // REQUIRES: queries are kept.
  View Queries(int request, int kv_head) const;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_FIXED_TABLE_H_
