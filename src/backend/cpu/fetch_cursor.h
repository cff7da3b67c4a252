// FetchCursor: halves of pages that a kernel fetches, some lines with each step
// of its work on others, where that reads no line of its own at a step
// (fetch_beside.h: where it does). Included by kernel files alone.
#ifndef WINNOW_BACKEND_CPU_FETCH_CURSOR_H_
#define WINNOW_BACKEND_CPU_FETCH_CURSOR_H_

#include "backend/cpu/fetch_beside.h"
#include "backend/cpu/read_kernels.h"

namespace winnow {

template <FarLevel kLevel>
class FetchCursor {
 public:
  // Fetches what stands ahead of `num_halves` halves of `half_bytes` in
  // `num_steps` steps.
  [[gnu::always_inline]] FetchCursor(const HalvesAhead* ahead, int num_halves,
                                     int half_bytes, int num_steps)
      : ahead_(ahead), end_ahead_(ahead + num_halves), half_bytes_(half_bytes) {
    const int num_fetches =
        num_halves * ((half_bytes + kLineBytes - 1) / kLineBytes);
    num_a_step_ = (num_fetches + num_steps - 1) / num_steps;
  }

  [[gnu::always_inline]] void Step() {
    for (int i = 0; i < num_a_step_; ++i) {
      while (next_ >= end_) {
        if (ahead_ == end_ahead_) return;
        next_ = ahead_->near != nullptr ? ahead_->near : ahead_->far[0];
        far_ = ahead_->far[0] != nullptr ? ahead_->far[0] : next_;
        end_ = next_ == nullptr ? nullptr : next_ + half_bytes_;
        ++ahead_;
      }
      FetchFar<kLevel>(far_);
      __builtin_prefetch(next_);
      next_ += kLineBytes;
      far_ += kLineBytes;
    }
  }

 private:
  static constexpr int kLineBytes = 64;

  const HalvesAhead* ahead_;
  const HalvesAhead* end_ahead_;
  const std::byte* next_ = nullptr;
  const std::byte* far_ = nullptr;
  const std::byte* end_ = nullptr;
  int half_bytes_;
  int num_a_step_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_CURSOR_H_
