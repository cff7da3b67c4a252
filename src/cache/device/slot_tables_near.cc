// Layers that are near: where a page lies of such a layer, told as a place on
// the host.
#include <cstring>

#include "cache/device/slot_tables.h"

namespace winnow {

int64_t SlotTables::PlacesAStrip() const {
  // With the extent before the pool's first, and what does not fill one.
  const int64_t num_extents = device_.options().num_extents + 2;
  const int64_t a_piece = host_.extents_per_piece();
  return (num_extents + a_piece - 1) / a_piece;
}

int64_t SlotTables::NumPlaces() const {
  return host_.num_pieces() + options_.num_layers * PlacesAStrip();
}

// A kernel finds extent `number` at places[number / a_piece] + number % a_piece
// extents, and there a layer's strip behind those of the layers before it.
// Behind the host's pieces a place begins in the extent before the device's
// pool, with each strip of that extent in turn.
void SlotTables::FillPlaces() {
  auto* places = reinterpret_cast<int64_t*>(host_memory_.data());
  const int64_t a_piece = host_.extents_per_piece();
  for (int64_t i = 0; i < host_.num_pieces(); ++i) {
    const auto extent = static_cast<uint32_t>(i * a_piece);
    *places++ = static_cast<int64_t>(
        reinterpret_cast<intptr_t>(host_.Extent(ExtentId(extent)).data));
  }
  const auto pool =
      static_cast<int64_t>(reinterpret_cast<intptr_t>(device_.strips(0)));
  const int64_t layers = options_.num_layers;
  for (int64_t strip = 0; strip < layers; ++strip) {
    for (int64_t i = 0; i < PlacesAStrip(); ++i) {
      *places++ = pool + (strip - layers + i * a_piece * layers) *
                             device_.strip_bytes();
    }
  }
}

uint32_t SlotTables::FarNumber(int layer, uint32_t strip) const {
  const int64_t layers = options_.num_layers;
  const int64_t at = StripNumber(strip) + layers - layer;
  const int64_t a_piece = host_.extents_per_piece();
  const int64_t place = host_.num_pieces() + at % layers * PlacesAStrip();
  const int64_t number = place * a_piece + at / layers;
  CHECK(number < kLingers, "strip={} number={}", strip, number);
  return static_cast<uint32_t>(number);
}

void SlotTables::CopyNear(Queue& queue,
                          std::span<const NearCopy> copies) const {
  const int64_t strip_bytes = device_.strip_bytes();
  for (const NearCopy& copy : copies) {
    const View from =
        copy.lingering == kNoExtent
            ? host_.Extent(copy.host).Slice(copy.layer * strip_bytes,
                                            strip_bytes)
            : MakeView(device_.Slice(copy.layer, copy.lingering, 0),
                       Dtype::kUInt8, {strip_bytes});
    const View to =
        MakeView(device_.strips(0) + StripNumber(copy.strip) * strip_bytes,
                 Dtype::kUInt8, {strip_bytes});
    backend_.Copy(queue, from, to);
  }
}

}  // namespace winnow
