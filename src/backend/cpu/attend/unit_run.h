// What a worker does with the decode rows of an Attend: its items, unit by
// unit.
#ifndef WINNOW_BACKEND_CPU_ATTEND_UNIT_RUN_H_
#define WINNOW_BACKEND_CPU_ATTEND_UNIT_RUN_H_

#include <atomic>

#include "backend/cpu/attend/halves_in_turn.h"
#include "backend/cpu/attend/softmax_state.h"
#include "backend/cpu/isa/vector_attend.h"

namespace winnow {

inline AttendRows OfKvHead(AttendRows rows, int number) {
  rows.kv_head += number;
  return rows;
}

// K and V are read where they lie.
bool ReadsInPlace(const AttendJob& job);

// Of a state, the lanes together. Pairs of cache lines, as they are fetched:
// workers write neighbours at the same time.
inline int64_t StateFloats(int dim, int num_lanes) {
  constexpr int64_t kFloats = 128 / sizeof(float);
  return (num_lanes * SoftmaxState::NumFloats(dim) + kFloats - 1) / kFloats *
         kFloats;
}

// Where lane `lane` of the state after `index` others stands.
inline SoftmaxState StateAt(float* memory, int dim, int num_lanes, int index,
                            int lane) {
  return {memory + index * StateFloats(dim, num_lanes) +
              lane * SoftmaxState::NumFloats(dim),
          dim};
}

// The items of a wave, handed out to workers in ascending order. A worker asks
// for its next item when it begins the last turn of the one before, so that it
// can fetch the first turn of the next meanwhile.
class ItemQueue {
 public:
  ItemQueue(const AttendItem* items, int num_items)
      : items_(items), num_items_(num_items) {}

  // Null where none is left.
  const AttendItem* Take() {
    const int item = next_.fetch_add(1, std::memory_order_relaxed);
    return item < num_items_ ? items_ + item : nullptr;
  }

 private:
  const AttendItem* const items_;
  const int num_items_;
  std::atomic<int> next_{0};
};

// Leaves the states of an item's units at `partial`, or of the one group that
// they make up; returns the worker's next item.
const AttendItem* RunItem(const AttendJob& job, const AttendItem& item,
                          int worker, ItemQueue& queue);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_UNIT_RUN_H_
