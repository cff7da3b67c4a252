#include "kv/layer_room.h"

#include <algorithm>

#include "base/check.h"
#include "base/ids.h"

namespace winnow {
namespace {

int64_t CountOf(int64_t number, int64_t in_each) {
  return (number + in_each - 1) / in_each;
}

}  // namespace

int64_t LayerRoom::num_lent() const {
  return num_whole_pages + std::max(num_strip_extents, num_slot_extents);
}

int64_t LayerRoom::num_most() const {
  return std::max(num_lent(), num_decoding());
}

LayerRoom LayerRoomOf(const LayerRoomShape& shape,
                      const LayerRoomRequest& request) {
  const int64_t num_pages = PagesFor(request.num_tokens);
  CHECK(
      request.num_far_pages <= num_pages && num_pages <= request.num_life_pages,
      "far pages={} of {} life={}", request.num_far_pages, num_pages,
      request.num_life_pages);
  const int64_t num_strips =
      request.num_far_pages +
      CountOf(request.num_tokens * shape.row_bytes, shape.strip_bytes);
  return {.num_whole_pages = num_pages - request.num_far_pages,
          .num_strip_extents = CountOf(num_strips, shape.num_layers),
          .num_slot_extents = request.num_slot_extents,
          .num_later_pages = request.num_life_pages - num_pages};
}

}  // namespace winnow
