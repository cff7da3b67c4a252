// DrivenSlots: takes a request's first pages away from a StepDriver's pool, and
// says where else they are.
#ifndef WINNOW_TESTS_GOLDEN_DRIVEN_SLOTS_H_
#define WINNOW_TESTS_GOLDEN_DRIVEN_SLOTS_H_

#include <span>
#include <vector>

#include "backend/backend.h"

namespace winnow {

// Owns the host's copies of pages, frames for slots, and their tables: of the
// first request alone. Independent of kv/ and cache/. Test code: every failure
// CHECKs; the backend's device must be host memory.
class DrivenSlots {
 public:
  struct Shape {
    int num_pages = 0;   // [0, num_pages) leave the pool
    int num_frames = 0;  // of each layer
    int slot_tokens = kPageTokens;
  };
  // Poisons what has left, in the pages that row 0 of the page table names.
  // REQUIRES: the backend outlives this.
  DrivenSlots(Backend& backend, std::span<const LayerCache> layers,
              const Shape& shape);

  const Shape& shape() const { return shape_; }
  std::span<const SlotTable> tables() const { return tables_; }
  std::span<const View> counts() const { return counts_; }
  // Over all layers and steps.
  int64_t Count(FetchCount what) const;

 private:
  View Take(Dtype dtype, std::initializer_list<int64_t> shape, uint8_t fill);

  Backend& backend_;
  const Shape shape_;
  std::vector<Buffer> buffers_;
  std::vector<SlotTable> tables_;  // by layer
  std::vector<View> counts_;       // by layer
};

}  // namespace winnow

#endif  // WINNOW_TESTS_GOLDEN_DRIVEN_SLOTS_H_
