// AttendWorkspace: the memory that a vector Attend works in.
#ifndef WINNOW_BACKEND_CPU_ATTEND_ATTEND_WORKSPACE_H_
#define WINNOW_BACKEND_CPU_ATTEND_ATTEND_WORKSPACE_H_

#include <vector>

#include "tensor/buffer.h"

namespace winnow {

// The greatest k_dim and v_dim that the scratch has room for.
inline constexpr int kMaxAttendDim = 1024;

// Cuts 64-byte aligned arrays from a block. CHECKs that they fit.
class ScratchCutter {
 public:
  ScratchCutter(std::byte* begin, size_t num_bytes)
      : next_(begin), end_(begin + num_bytes) {}

  template <typename T>
  T* Take(int64_t count) {
    const auto num_bytes =
        (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    CHECK(num_bytes <= static_cast<size_t>(end_ - next_), "wanted={} left={}",
          num_bytes, end_ - next_);
    T* array = reinterpret_cast<T*>(next_);
    next_ += num_bytes;
    return array;
  }

 private:
  std::byte* next_;
  std::byte* end_;
};

// Rows of one request and KV head that share every load of K and V: tokens
// [first_row, first_row + num_rows) of the request's rows with q heads
// [first_head, first_head + num_heads) of the group. A row and head is a lane:
// lane = row * num_heads + head.
struct AttendRows {
  int32_t request = 0;
  int32_t kv_head = 0;
  int32_t first_head = 0;
  int32_t num_heads = 0;
  int32_t first_row = 0;
  int32_t num_rows = 0;

  int num_lanes() const { return num_rows * num_heads; }
  bool operator==(const AttendRows&) const = default;
};

// What a worker takes on whole: rows, and for generated ones the units
// [first_unit, first_unit + num_units), whose states go to `partial`. So for
// `num_kv_heads` heads from rows.kv_head on, each unit for all of them before
// the next: their slices are neighbours.
struct AttendItem {
  AttendRows rows;
  int32_t first_unit = 0;
  int32_t num_units = 0;
  float* partial = nullptr;
  int32_t num_kv_heads = 1;
  int64_t head_floats = 0;  // from a KV head's states to the next one's
  bool as_group = false;    // units leave their group's state, not their own
};

// States of consecutive units of the same rows, that one wave has left at
// `partial`, to be merged in order.
struct AttendMerge {
  AttendRows rows;
  int32_t first_unit = 0;
  int32_t num_units = 0;
  // Units before this one have left the states of their groups.
  int32_t first_single = 0;
  float* partial = nullptr;
  bool continues = false;  // what came before was merged in the wave before
  bool ends = false;       // nothing comes after
};

// Sized by the number of workers alone and taken at start-up, whatever the
// step: an Attend works in waves that fit. Pages are touched on first use.
class AttendWorkspace {
 public:
  static constexpr size_t kScratchBytes = size_t{3} << 20;  // a worker
  static constexpr size_t kPartialBytes = size_t{1} << 20;  // a worker
  static constexpr int kMaxItems = 4096;                    // a wave

  explicit AttendWorkspace(int num_workers);

  ScratchCutter Scratch(int worker) const {
    return {scratch_.data() + static_cast<size_t>(worker) * kScratchBytes,
            kScratchBytes};
  }
  float* partials() const { return reinterpret_cast<float*>(partials_.data()); }
  int64_t num_partials() const {
    return static_cast<int64_t>(partials_.num_bytes() / sizeof(float));
  }
  // Room for kMaxItems each: a wave's items, and what they are merged into.
  AttendItem* items() { return items_.data(); }
  AttendMerge* merges() { return merges_.data(); }

 private:
  Buffer scratch_, partials_;
  std::vector<AttendItem> items_;
  std::vector<AttendMerge> merges_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_ATTEND_WORKSPACE_H_
