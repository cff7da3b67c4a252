// Layers that are near: where a page lies of such a layer, told as a place on
// the host.
#include <cstring>

#include "cache/device/slot_tables.h"

namespace winnow {

int64_t SlotTables::PlacesAStrip() const {
  // With the KV block before the pool's first, and what does not fill one.
  const int64_t num_kv_blocks = device_.options().num_kv_blocks + 2;
  const int64_t a_piece = host_.kv_blocks_per_piece();
  return (num_kv_blocks + a_piece - 1) / a_piece;
}

int64_t SlotTables::NumPlaces() const {
  return host_.num_pieces() + options_.num_layers * PlacesAStrip();
}

// A kernel finds KV block `number` at places[number / a_piece] + number %
// a_piece KV blocks, and there a layer's layer block behind those of the layers
// before it. Behind the host's pieces a place begins in the KV block before the
// device's pool, with each layer block of that KV block in turn.
void SlotTables::FillPlaces() {
  auto* places = reinterpret_cast<int64_t*>(host_memory_.data());
  const int64_t a_piece = host_.kv_blocks_per_piece();
  for (int64_t i = 0; i < host_.num_pieces(); ++i) {
    const auto kv_block = static_cast<uint32_t>(i * a_piece);
    *places++ = static_cast<int64_t>(
        reinterpret_cast<intptr_t>(host_.KvBlock(KvBlockId(kv_block)).data));
  }
  const auto pool =
      static_cast<int64_t>(reinterpret_cast<intptr_t>(device_.layer_blocks(0)));
  const int64_t layers = options_.num_layers;
  for (int64_t layer_block = 0; layer_block < layers; ++layer_block) {
    for (int64_t i = 0; i < PlacesAStrip(); ++i) {
      *places++ = pool + (layer_block - layers + i * a_piece * layers) *
                             device_.layer_block_bytes();
    }
  }
}

uint32_t SlotTables::FarNumber(int layer, uint32_t layer_block) const {
  const int64_t layers = options_.num_layers;
  const int64_t at = LayerBlockNumber(layer_block) + layers - layer;
  const int64_t a_piece = host_.kv_blocks_per_piece();
  const int64_t place = host_.num_pieces() + at % layers * PlacesAStrip();
  const int64_t number = place * a_piece + at / layers;
  CHECK(number < kReclaimable, "layer block={} number={}", layer_block, number);
  return static_cast<uint32_t>(number);
}

void SlotTables::CopyNear(Queue& queue,
                          std::span<const NearCopy> copies) const {
  const int64_t layer_block_bytes = device_.layer_block_bytes();
  for (const NearCopy& copy : copies) {
    const View from =
        copy.reclaimable == kNoKvBlock
            ? host_.KvBlock(copy.host).Slice(copy.layer * layer_block_bytes,
                                             layer_block_bytes)
            : MakeView(device_.Slice(copy.layer, copy.reclaimable, 0),
                       Dtype::kUInt8, {layer_block_bytes});
    const View to =
        MakeView(device_.layer_blocks(0) +
                     LayerBlockNumber(copy.layer_block) * layer_block_bytes,
                 Dtype::kUInt8, {layer_block_bytes});
    backend_.Copy(queue, from, to);
  }
}

}  // namespace winnow
