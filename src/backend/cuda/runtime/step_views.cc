#include "backend/cuda/runtime/step_views.h"

#include "base/check.h"

namespace winnow {

static_assert(device::kNotWhole == kNotWhole && device::kNoPiece == kNoPiece);
static_assert(device::kSegmentPages == kSegmentPages &&
              device::kChunkFrames == kChunkFrames &&
              device::kReclaimable == kReclaimable);

namespace {

device::Slots DeviceSlots(const HeadBlockFormat& format,
                          const SlotTable& slots) {
  return {
      .num_segments = slots.num_segments.As<int32_t>(),
      .first_segment = slots.directory.first.As<int32_t>(),
      .directory = slots.directory.entries.As<uint32_t>(),
      .entries = slots.entries.As<uint16_t>(),
      .num_frames = slots.num_frames.As<int32_t>(),
      .first_chunk = slots.chunks.first.As<int32_t>(),
      .chunks = slots.chunks.entries.As<uint32_t>(),
      .frames = slots.frames.As<uint32_t>(),
      .tags = slots.tags.As<uint32_t>(),
      .ages = slots.ages.As<uint8_t>(),
      .first_page = slots.host_pages.first.As<int32_t>(),
      .host_pages = slots.host_pages.entries.As<uint32_t>(),
      .host_memory = slots.host_memory.As<int64_t>(),
      .frames_stride = slots.frames.stride[0],
      .entries_stride = slots.entries.stride[0],
      .entries_head_stride = slots.entries.stride[1],
      .tags_stride = slots.tags.stride[0],
      .tags_head_stride = slots.tags.stride[1],
      .ages_stride = slots.ages.stride[0],
      .ages_head_stride = slots.ages.stride[1],
      .host_kv_blocks_a_piece = slots.host_kv_blocks_a_piece,
      .host_kv_block_bytes = slots.host_kv_block_bytes,
      .host_layer_offset_bytes = slots.host_layer_offset_bytes,
      .layer_blocks = slots.layer_blocks,
      .layer_block_bytes = slots.layer_block_bytes,
      .pieces = PiecesAPage(format),
  };
}

}  // namespace

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
  rows.num_prefill_rows = step.num_prefill_rows.As<int32_t>();
  if (step.selector.empty()) return rows;
  rows.selector = step.selector.As<int32_t>();
  rows.num_prompt_tokens = step.num_prompt_tokens.As<int32_t>();
  if (step.num_context_tokens.empty()) return rows;
  rows.num_context_tokens = step.num_context_tokens.As<int32_t>();
  return rows;
}

device::Pages DevicePages(const LayerCache& cache, const SlotTable* slots) {
  const HeadBlockFormat& format = cache.format;
  CHECK(format.k == format.v && format.scale_bytes == 0 &&
            format.page_tokens == kPageTokens,
        "k={} v={} scale_bytes={} page_tokens={}", DtypeName(format.k),
        DtypeName(format.v), format.scale_bytes, format.page_tokens);
  return {
      .layer_blocks = cache.layer_blocks,
      .kv_block_stride_bytes = cache.kv_block_stride_bytes,
      .head_block_bytes = format.head_block_bytes,
      .v_offset_bytes = format.v_in_k ? 0 : format.v_offset_bytes,
      .first_page = cache.page_table.first.As<int32_t>(),
      .page_table = cache.page_table.entries.As<uint32_t>(),
      .max_pages = cache.max_pages,
      .num_kv_heads = cache.num_kv_heads,
      .k_dim = format.k_dim,
      .v_dim = format.v_dim,
      .slots = slots == nullptr ? device::Slots() : DeviceSlots(format, *slots),
  };
}

}  // namespace winnow
