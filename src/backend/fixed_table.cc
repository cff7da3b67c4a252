#include "backend/fixed_table.h"

#include "base/ids.h"

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
  layout.num_words = PagesFor(shape.max_tokens);
  layout.window_tokens = program.fixed.window_tokens;
  layout.k_dim = shape.k_dim;
  layout.q_dtype = shape.q_dtype;
  layout.queries_offset_bytes =
      Aligned(int64_t{layout.num_lists} * layout.num_words *
              static_cast<int64_t>(sizeof(uint32_t)));
  layout.head_bytes =
      layout.queries_offset_bytes +
      Aligned(int64_t{layout.window_tokens} * layout.group_heads *
              layout.k_dim * DtypeBytes(layout.q_dtype));
  return layout;
}

std::byte* FixedTable::Head(int request, int kv_head) const {
  const uint32_t slot = slot_of_request.At(request, 0);
  return slots + int64_t{slot} * slot_stride_bytes +
         int64_t{kv_head} * layout.head_bytes;
}

uint32_t* FixedTable::Tokens(int request, int kv_head, int list) const {
  return reinterpret_cast<uint32_t*>(Head(request, kv_head)) +
         int64_t{list} * layout.num_words;
}

View FixedTable::Queries(int request, int kv_head) const {
  return MakeView(Head(request, kv_head) + layout.queries_offset_bytes,
                  layout.q_dtype,
                  {layout.window_tokens, layout.group_heads, layout.k_dim});
}

}  // namespace winnow
