// What a prompt takes on the device that is read layer by layer, and which
// layer block holds what.
#ifndef WINNOW_KV_LAYER_CAPACITY_H_
#define WINNOW_KV_LAYER_CAPACITY_H_

#include <cstdint>

namespace winnow {

struct LayerCapacityShape {
  int num_layers = 0;             // layer blocks a KV block
  int64_t layer_block_bytes = 0;  // a page of one layer
  int64_t row_bytes = 0;          // of a token between two layers
};

// A request of `num_tokens` that may reach `max_tokens` more, whose first
// `num_far_pages` are to lie on the host.
struct LayerCapacityRequest {
  int64_t num_tokens = 0;
  int64_t num_far_pages = 0;
  int64_t num_life_pages = 0;      // at the end of its longest life
  int64_t num_slot_kv_blocks = 0;  // once it has been read
};

// KV blocks of the device, all layers of each.
struct LayerCapacity {
  int64_t num_whole_pages = 0;  // of the prompt, behind those of the host
  int64_t num_layer_block_kv_blocks =
      0;  // one layer's KV and the rows, while it reads
  int64_t num_slot_kv_blocks = 0;
  int64_t num_later_pages = 0;  // that it may generate

  // What it is lent: slots have room where the layer blocks were.
  int64_t num_lent() const;
  int64_t num_decoding() const {
    return num_whole_pages + num_slot_kv_blocks + num_later_pages;
  }
  // At any time of its life.
  int64_t num_most() const;
};

LayerCapacity LayerCapacityOf(const LayerCapacityShape& shape,
                              const LayerCapacityRequest& request);

// Layer blocks of the lent KV blocks behind the whole pages are numbered layer
// by layer of these, so that neighbours in a layer-major pool have neighbouring
// numbers: page p's is p, and the rows begin at num_far_pages.
struct LayerBlockPlace {
  int64_t kv_block = 0;  // of those behind the whole pages
  int layer = 0;         // of that KV block
};
inline LayerBlockPlace PlaceOfLayerBlock(int64_t layer_block,
                                         int64_t num_kv_blocks) {
  return {.kv_block = layer_block % num_kv_blocks,
          .layer = static_cast<int>(layer_block / num_kv_blocks)};
}

}  // namespace winnow

#endif  // WINNOW_KV_LAYER_CAPACITY_H_
