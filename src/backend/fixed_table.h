// What requests keep for themselves where a choice is made once and stays
// (FixedChoice), as plain data that kernels read: filled in by cache/.
#ifndef WINNOW_BACKEND_FIXED_TABLE_H_
#define WINNOW_BACKEND_FIXED_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "backend/row_table.h"
#include "backend/select_program.h"
#include "tensor/view.h"

namespace winnow {

// The heads that a choice is made for, and the longest context.
struct FixedShape {
  int num_q_heads = 0;
  int num_kv_heads = 0;
  int k_dim = 0;
  Dtype q_dtype = Dtype::kBFloat16;
  int64_t max_tokens = 0;
};

// The bytes of one (request, layer, KV head): the tokens of its lists, a bit
// each, then the last queries of its heads.
struct FixedLayout {
  int num_lists = 0;      // 1, or the group's heads
  int64_t num_words = 0;  // u32 a list: one a page
  int window_tokens = 0;  // whose queries are kept
  int group_heads = 0;
  int k_dim = 0;
  Dtype q_dtype = Dtype::kBFloat16;
  int64_t queries_offset_bytes = 0;
  int64_t head_bytes = 0;  // 0: the program fixes nothing
};

FixedLayout MakeFixedLayout(const SelectProgram& program,
                            const FixedShape& shape);

// One layer's, of one selector, of every request in a step. A request has one
// slot for its life, and a copy of it goes to what is forked from it.
struct FixedTable {
  FixedLayout layout;
  std::byte* slots = nullptr;
  int64_t slot_stride_bytes = 0;
  RowTable slot_of_request;  // one a request

  // Bit t of word p: token t of page p is always read. List `list` of a KV
  // head: its own, or that of its q head number `list`.
  uint32_t* Tokens(int request, int kv_head, int list) const;
  // [window_tokens, group_heads, k_dim]: of position p at p % window_tokens.
  View Queries(int request, int kv_head) const;

 private:
  std::byte* Head(int request, int kv_head) const;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_FIXED_TABLE_H_
