// FetchCursor: bytes that a kernel fetches while it works on others. Included
// by kernel files alone.
//
// A slice ends before the hardware has seen a pattern in it, and a burst of
// fetches waits for memory as loads would: so some lines are asked for with
// each step of the work, into the first cache level. (Into the
// second level, or every other line alone, was slower on Zen 5.)
#ifndef WINNOW_BACKEND_CPU_FETCH_CURSOR_H_
#define WINNOW_BACKEND_CPU_FETCH_CURSOR_H_

#include <cstddef>

namespace winnow {

class FetchCursor {
 public:
  // Fetches `num_runs` runs of `run_bytes` in `num_steps` steps; a run that is
  // null is none.
  [[gnu::always_inline]] FetchCursor(const std::byte* const* runs, int num_runs,
                                     int run_bytes, int num_steps)
      : runs_(runs), end_runs_(runs + num_runs), run_bytes_(run_bytes) {
    const int num_fetches =
        num_runs * ((run_bytes + kLineBytes - 1) / kLineBytes);
    num_a_step_ = (num_fetches + num_steps - 1) / num_steps;
  }

  [[gnu::always_inline]] void Step() {
    for (int i = 0; i < num_a_step_; ++i) {
      while (next_ >= end_) {
        if (runs_ == end_runs_) return;
        next_ = *runs_++;
        end_ = next_ == nullptr ? nullptr : next_ + run_bytes_;
      }
      __builtin_prefetch(next_);
      next_ += kLineBytes;
    }
  }

 private:
  static constexpr int kLineBytes = 64;

  const std::byte* const* runs_;
  const std::byte* const* end_runs_;
  const std::byte* next_ = nullptr;
  const std::byte* end_ = nullptr;
  int run_bytes_;
  int num_a_step_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_CURSOR_H_
