#include "kv/layer_capacity.h"

#include <algorithm>

#include "base/check.h"
#include "base/ids.h"

namespace winnow {
namespace {

int64_t CountOf(int64_t number, int64_t in_each) {
  return (number + in_each - 1) / in_each;
}

}  // namespace

int64_t LayerCapacity::num_lent() const {
  return num_whole_pages +
         std::max(num_layer_block_kv_blocks, num_slot_kv_blocks);
}

int64_t LayerCapacity::num_most() const {
  return std::max(num_lent(), num_decoding());
}

LayerCapacity LayerCapacityOf(const LayerCapacityShape& shape,
                              const LayerCapacityRequest& request) {
  const int64_t num_pages = PagesFor(request.num_tokens);
  CHECK(
      request.num_far_pages <= num_pages && num_pages <= request.num_life_pages,
      "far pages={} of {} life={}", request.num_far_pages, num_pages,
      request.num_life_pages);
  const int64_t num_layer_blocks =
      request.num_far_pages +
      CountOf(request.num_tokens * shape.row_bytes, shape.layer_block_bytes);
  return {
      .num_whole_pages = num_pages - request.num_far_pages,
      .num_layer_block_kv_blocks = CountOf(num_layer_blocks, shape.num_layers),
      .num_slot_kv_blocks = request.num_slot_kv_blocks,
      .num_later_pages = request.num_life_pages - num_pages};
}

}  // namespace winnow
