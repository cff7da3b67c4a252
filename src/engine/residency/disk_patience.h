// DiskPatience: whether a disk that has something to do has done anything.
#ifndef WINNOW_ENGINE_RESIDENCY_DISK_PATIENCE_H_
#define WINNOW_ENGINE_RESIDENCY_DISK_PATIENCE_H_

#include <chrono>
#include <cstdint>
#include <optional>

namespace winnow {

// Plain data, of one thread. A disk that ends one transfer after the other is
// slow, and waited for; one that has ended none for `longest` while any was
// under way is silent, and may never answer. It is until it ends one.
class DiskPatience {
 public:
  using Clock = std::chrono::steady_clock;

  explicit DiskPatience(std::chrono::milliseconds longest)
      : longest_(longest) {}

  // `num_ended`: transfers since it began.
  void Note(int64_t num_under_way, int64_t num_ended, Clock::time_point now) {
    const bool has_ended = num_ended != num_ended_;
    num_ended_ = num_ended;
    if (num_under_way == 0) {
      due_ = kNever;
      is_over_ = false;
    } else if (due_ == kNever || has_ended) {
      due_ = now + longest_;
      is_over_ = false;
    } else if (now >= due_) {
      is_over_ = true;
    }
  }

  bool is_over() const { return is_over_; }
  // When it will be, if nothing ends by then; none where nothing is under way,
  // or it is over.
  std::optional<Clock::time_point> due() const {
    if (due_ == kNever || is_over_) return std::nullopt;
    return due_;
  }
  std::chrono::milliseconds longest() const { return longest_; }

 private:
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  std::chrono::milliseconds longest_;
  int64_t num_ended_ = 0;
  Clock::time_point due_ = kNever;
  bool is_over_ = false;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RESIDENCY_DISK_PATIENCE_H_
