// The device capacity of a prompt that is read layer by layer, and the layout
// of its layer blocks.
#ifndef WINNOW_KV_LAYER_CAPACITY_H_
#define WINNOW_KV_LAYER_CAPACITY_H_

#include <cstdint>

namespace winnow {

struct LayerCapacityShape {
  int num_layers = 0;             // layer blocks in a KV block
  int64_t layer_block_bytes = 0;  // one page of one layer
  int64_t row_bytes = 0;          // a token's activations between two layers
};

// A request of `num_tokens` that may generate up to `max_tokens` more. Its
// first `num_far_pages` will be offloaded.
struct LayerCapacityRequest {
  int64_t num_tokens = 0;
  int64_t num_far_pages = 0;
  int64_t num_life_pages = 0;  // pages at its greatest length
  // KV blocks for cache slots, once the prompt has been read.
  int64_t num_slot_kv_blocks = 0;
};

// KV blocks of the device, each over all layers.
struct LayerCapacity {
  int64_t num_whole_pages = 0;  // of the prompt, behind the offloaded ones
  // One layer's KV and the activations, while the prompt is read.
  int64_t num_layer_block_kv_blocks = 0;
  int64_t num_slot_kv_blocks = 0;
  int64_t num_later_pages = 0;  // for tokens to be generated

  // The size of the loan. Cache slots later reuse the space of the layer
  // blocks.
  int64_t num_lent() const;
  int64_t num_decoding() const {
    return num_whole_pages + num_slot_kv_blocks + num_later_pages;
  }
  // The maximum over the request's life.
  int64_t num_most() const;
};

LayerCapacity LayerCapacityOf(const LayerCapacityShape& shape,
                              const LayerCapacityRequest& request);

// Layer blocks of the lent KV blocks behind the resident pages are numbered
// layer by layer. Hence neighbours in a layer-major pool have neighbouring
// numbers. Page p has number p; the activations begin at num_far_pages.
struct LayerBlockPlace {
  int64_t kv_block = 0;  // counted behind the resident pages
  int layer = 0;         // within that KV block
};
inline LayerBlockPlace PlaceOfLayerBlock(int64_t layer_block,
                                         int64_t num_kv_blocks) {
  return {.kv_block = layer_block % num_kv_blocks,
          .layer = static_cast<int>(layer_block / num_kv_blocks)};
}

}  // namespace winnow

#endif  // WINNOW_KV_LAYER_CAPACITY_H_
