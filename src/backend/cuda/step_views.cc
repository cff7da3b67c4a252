#include "backend/cuda/step_views.h"

#include "base/check.h"

namespace winnow {

device::StepRows DeviceRows(const LayerStep& step) {
  CHECK(step.tree_parent.empty(), "draft trees are not read yet");
  device::StepRows rows = {};
  rows.num_rows = step.num_rows;
  rows.num_requests = step.num_requests;
  rows.window = step.window;
  if (step.num_requests == 0) return rows;
  rows.row_to_request = step.row_to_request.As<int32_t>();
  rows.first_row = step.first_row.As<int32_t>();
  rows.first_position = step.first_position.As<int32_t>();
  rows.num_tokens = step.num_tokens.As<int32_t>();
  rows.num_prompt_rows = step.num_prompt_rows.As<int32_t>();
  if (step.selector.empty()) return rows;
  rows.selector = step.selector.As<int32_t>();
  rows.num_prompt_tokens = step.num_prompt_tokens.As<int32_t>();
  return rows;
}

device::Pages DevicePages(const LayerCache& cache) {
  const SliceFormat& format = cache.format;
  CHECK(format.k == format.v && format.scale_bytes == 0 &&
            format.page_tokens == kPageTokens,
        "k={} v={} scale_bytes={} page_tokens={}", DtypeName(format.k),
        DtypeName(format.v), format.scale_bytes, format.page_tokens);
  return {
      .strips = cache.strips,
      .extent_stride_bytes = cache.extent_stride_bytes,
      .slice_bytes = format.slice_bytes,
      .v_offset_bytes = format.v_in_k ? 0 : format.v_offset_bytes(),
      .page_table = cache.page_table.As<uint32_t>(),
      .page_table_stride = cache.page_table.stride[0],
      .max_pages = static_cast<int>(cache.page_table.dim(1)),
      .num_kv_heads = cache.num_kv_heads,
      .k_dim = format.k_dim,
      .v_dim = format.v_dim,
  };
}

}  // namespace winnow
