// What a prompt takes on the device that is read layer by layer, and which
// strip holds what.
#ifndef WINNOW_KV_LAYER_ROOM_H_
#define WINNOW_KV_LAYER_ROOM_H_

#include <cstdint>

namespace winnow {

struct LayerRoomShape {
  int num_layers = 0;       // strips an extent
  int64_t strip_bytes = 0;  // a page of one layer
  int64_t row_bytes = 0;    // of a token between two layers
};

// A request of `num_tokens` that may reach `max_tokens` more, whose first
// `num_far_pages` are to lie on the host.
struct LayerRoomRequest {
  int64_t num_tokens = 0;
  int64_t num_far_pages = 0;
  int64_t num_life_pages = 0;    // at the end of its longest life
  int64_t num_slot_extents = 0;  // once it has been read
};

// Extents of the device, all layers of each.
struct LayerRoom {
  int64_t num_whole_pages = 0;    // of the prompt, behind those of the host
  int64_t num_strip_extents = 0;  // one layer's KV and the rows, while it reads
  int64_t num_slot_extents = 0;
  int64_t num_later_pages = 0;  // that it may generate

  // What it is lent: slots have room where the strips were.
  int64_t num_lent() const;
  int64_t num_decoding() const {
    return num_whole_pages + num_slot_extents + num_later_pages;
  }
  // At any time of its life.
  int64_t num_most() const;
};

LayerRoom LayerRoomOf(const LayerRoomShape& shape,
                      const LayerRoomRequest& request);

// Strips of the lent extents behind the whole pages are numbered layer by
// layer of these, so that neighbours in a layer-major pool have neighbouring
// numbers: page p's is p, and the rows begin at num_far_pages.
struct StripPlace {
  int64_t extent = 0;  // of those behind the whole pages
  int layer = 0;       // of that extent
};
inline StripPlace PlaceOfStrip(int64_t strip, int64_t num_extents) {
  return {.extent = strip % num_extents,
          .layer = static_cast<int>(strip / num_extents)};
}

}  // namespace winnow

#endif  // WINNOW_KV_LAYER_ROOM_H_
