// PrefetchCursor: halves of pages that a kernel fetches, some lines with each
// step of its work on others, where that reads no line of its own at a step
// (prefetch_beside.h: where it does). Included by kernel files alone.
#ifndef WINNOW_BACKEND_CPU_ISA_PREFETCH_CURSOR_H_
#define WINNOW_BACKEND_CPU_ISA_PREFETCH_CURSOR_H_

#include "backend/cpu/isa/prefetch_beside.h"
#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

template <CacheLevel kLevel>
class PrefetchCursor {
 public:
  // Fetches what stands ahead of `num_halves` halves of `half_bytes`, the first
  // with number `number`, in `num_steps` steps.
  [[gnu::always_inline]] PrefetchCursor(const HalvesAhead& ahead, int number,
                                        int num_halves, int half_bytes,
                                        int num_steps)
      : ahead_(ahead),
        next_(number),
        end_(ahead.far == nullptr ? number : number + num_halves),
        half_bytes_(half_bytes) {
    const int num_fetches =
        num_halves * ((half_bytes + kLineBytes - 1) / kLineBytes);
    num_a_step_ = (num_fetches + num_steps - 1) / num_steps;
  }

  [[gnu::always_inline]] void Step() {
    for (int i = 0; i < num_a_step_; ++i) {
      if (next_ == end_) return;
      PrefetchFar<kLevel>(ahead_.far[next_] + at_);
      PrefetchNear(ahead_.near[next_] + at_);
      at_ += kLineBytes;
      if (at_ < half_bytes_) continue;
      at_ = 0;
      ++next_;
    }
  }

 private:
  static constexpr int kLineBytes = 64;

  HalvesAhead ahead_;
  int next_;  // a half, of which bytes below at_ are fetched
  int at_ = 0;
  int end_;
  int half_bytes_;
  int num_a_step_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_PREFETCH_CURSOR_H_
