#include "tests/golden/driven_slots.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/contract/replacement.h"

namespace winnow {
namespace {

constexpr uint8_t kPoison = 0x7f;

}  // namespace

View DrivenSlots::Take(Dtype dtype, std::initializer_list<int64_t> shape,
                       uint8_t fill) {
  int64_t num_bytes = DtypeBytes(dtype);
  for (const int64_t size : shape) num_bytes *= std::max<int64_t>(size, 1);
  buffers_.push_back(
      backend_.Allocate(Tier::kDevice, static_cast<size_t>(num_bytes), "test")
          .value());
  std::memset(buffers_.back().data(), fill, static_cast<size_t>(num_bytes));
  return MakeView(buffers_.back().data(), dtype, shape);
}

DrivenSlots::DrivenSlots(Backend& backend, std::span<const LayerCache> layers,
                         const Shape& shape)
    : backend_(backend), shape_(shape) {
  const int64_t heads = layers[0].num_kv_heads;
  const int64_t pieces = kPageTokens / shape.slot_tokens;
  const int64_t layer_block_bytes = heads * layers[0].format.head_block_bytes;
  const auto num_layers = static_cast<int64_t>(layers.size());
  const int64_t segments = PagesFor(shape.num_pages, kSegmentPages);
  const int64_t chunks =
      std::max<int64_t>(1, PagesFor(shape.num_frames, kChunkFrames));
  const View host = Take(
      Dtype::kUInt8, {shape.num_pages, num_layers, layer_block_bytes}, kPoison);
  const View memory = Take(Dtype::kInt64, {1}, 0);
  *memory.As<int64_t>() =
      static_cast<int64_t>(reinterpret_cast<intptr_t>(host.data));
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    const LayerCache& cache = layers[static_cast<size_t>(layer)];
    for (int page = 0; page < shape.num_pages; ++page) {
      std::byte* layer_block = cache.Slice(cache.page_table.Row(0)[page], 0);
      std::memcpy(host.data + (page * num_layers + layer) * layer_block_bytes,
                  layer_block, static_cast<size_t>(layer_block_bytes));
      std::memset(layer_block, kPoison, static_cast<size_t>(layer_block_bytes));
    }
    SlotTable& slots = tables_.emplace_back();
    slots.num_segments = Take(Dtype::kInt32, {1}, 0);
    *slots.num_segments.As<int32_t>() = static_cast<int32_t>(segments);
    slots.num_frames = Take(Dtype::kInt32, {1}, 0);
    *slots.num_frames.As<int32_t>() = shape.num_frames;
    slots.max_frames = std::max(1, shape.num_frames);
    const View first = Take(Dtype::kInt32, {1}, 0);
    slots.directory = {first, Take(Dtype::kUInt32, {segments}, 0)};
    std::iota(slots.directory.Row(0), slots.directory.Row(0) + segments, 0u);
    slots.entries =
        Take(Dtype::kUInt16, {segments, heads, kSegmentPages * pieces}, 0);
    slots.chunks = {first, Take(Dtype::kUInt32, {chunks}, 0)};
    std::iota(slots.chunks.Row(0), slots.chunks.Row(0) + chunks, 0u);
    slots.frames = Take(Dtype::kUInt32, {chunks, kChunkFrames}, 0);
    std::iota(slots.frames.As<uint32_t>(),
              slots.frames.As<uint32_t>() + chunks * kChunkFrames, 0u);
    slots.tags =
        Take(Dtype::kUInt32, {chunks, heads, kChunkFrames * pieces}, 0xff);
    slots.ages =
        Take(Dtype::kUInt8, {chunks, heads, kChunkFrames * pieces}, kEmptyAge);
    slots.layer_blocks =
        Take(Dtype::kUInt8, {shape.num_frames, layer_block_bytes}, kPoison)
            .data;
    slots.layer_block_bytes = layer_block_bytes;
    slots.host_pages = {first, Take(Dtype::kUInt32, {shape.num_pages}, 0)};
    std::iota(slots.host_pages.Row(0),
              slots.host_pages.Row(0) + shape.num_pages, 0u);
    slots.host_memory = memory;
    slots.host_kv_blocks_a_piece = shape.num_pages;
    slots.host_kv_block_bytes = num_layers * layer_block_bytes;
    slots.host_layer_offset_bytes = layer * layer_block_bytes;
    counts_.push_back(Take(Dtype::kUInt32, {1, kNumFetchCounts}, 0));
  }
}

int64_t DrivenSlots::Count(FetchCount what) const {
  int64_t count = 0;
  for (const View& counts : counts_) count += counts.As<uint32_t>()[what];
  return count;
}

}  // namespace winnow
