#include "backend/contract/fixed_table.h"

namespace winnow {
namespace {

constexpr int64_t kAlignment = 64;

int64_t Aligned(int64_t num_bytes) {
  return (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

FixedLayout MakeFixedLayout(const SelectProgram& program,
                            const FixedShape& shape) {
  FixedLayout layout;
  if (program.fixed.kind == FixedChoice::Kind::kNone) return layout;
  layout.group_heads = shape.num_q_heads / shape.num_kv_heads;
  layout.num_lists = program.scope == Scope::kQHead ? layout.group_heads : 1;
  layout.window_tokens = program.fixed.window_tokens;
  layout.k_dim = shape.k_dim;
  layout.q_dtype = shape.q_dtype;
  layout.words_bytes = int64_t{layout.num_lists} * kFixedSegmentPages *
                       static_cast<int64_t>(sizeof(uint32_t));
  layout.queries_bytes =
      Aligned(int64_t{layout.window_tokens} * layout.group_heads *
              layout.k_dim * DtypeBytes(layout.q_dtype));
  return layout;
}

FixedTokens FixedTable::Tokens(int request, int kv_head, int list) const {
  const int64_t list_bytes = layout.words_bytes / layout.num_lists;
  return {.words = words + kv_head * layout.words_bytes + list * list_bytes,
          .segment_stride_bytes = segment_stride_bytes,
          .segments = segments.Row(request)};
}

View FixedTable::Queries(int request, int kv_head) const {
  return MakeView(
      slots + int64_t{slot_of_request.At(request, 0)} * slot_stride_bytes +
          kv_head * layout.queries_bytes,
      layout.q_dtype, {layout.window_tokens, layout.group_heads, layout.k_dim});
}

}  // namespace winnow
