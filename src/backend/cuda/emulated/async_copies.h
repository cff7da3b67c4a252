// AsyncCopies: what one thread has started to copy into shared memory.
#ifndef WINNOW_BACKEND_CUDA_EMULATED_ASYNC_COPIES_H_
#define WINNOW_BACKEND_CUDA_EMULATED_ASYNC_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

namespace winnow::emulated {

// 16 bytes: the first num_bytes are copied, the others become zero.
struct AsyncCopy {
  std::byte* to;
  const void* from;
  uint32_t num_bytes;

  void Land() const {
    std::memset(to, 0, 16);
    if (num_bytes > 0) std::memcpy(to, from, num_bytes);
  }
};

// Copies land as late as they may: when their group is waited for. Those of
// `lands_early` land at once, which they also may.
class AsyncCopies {
 public:
  void Start(const AsyncCopy& copy, bool lands_early) {
    if (lands_early) return copy.Land();
    group_.push_back(copy);
  }
  void Commit() {
    committed_.push_back(std::move(group_));
    group_.clear();
  }
  void WaitForAllBut(size_t num_groups) {
    for (; committed_.size() > num_groups; committed_.pop_front()) {
      for (const AsyncCopy& copy : committed_.front()) copy.Land();
    }
  }
  void Clear() {
    committed_.clear();
    group_.clear();
  }

 private:
  std::deque<std::vector<AsyncCopy>> committed_;
  std::vector<AsyncCopy> group_;
};

}  // namespace winnow::emulated

#endif  // WINNOW_BACKEND_CUDA_EMULATED_ASYNC_COPIES_H_
