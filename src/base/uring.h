// Uring: transfers through io_uring, many in flight and one system call for a
// batch.
#ifndef WINNOW_BASE_URING_H_
#define WINNOW_BASE_URING_H_

#include <memory>
#include <span>

#include "base/block_folder.h"

struct io_uring;

namespace winnow {

// Owns one ring. Used by one thread at a time. The destructor REQUIRES that
// nothing is in flight, because the kernel would go on writing to memory.
class Uring {
 public:
  // Fails with kUnsupported if the kernel refuses: an old kernel, a container
  // whose filter forbids it, or kernel.io_uring_disabled.
  static Result<std::unique_ptr<Uring>> Create(int max_transfers);
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;
  ~Uring();

  int num_under_way() const { return num_under_way_; }
  // As in BlockFolder, on the file `fd`.
  void Submit(int fd, std::span<const BlockTransfer> transfers);
  size_t Collect(std::span<BlockCompletion> completions, bool wait);

 private:
  Uring(std::unique_ptr<io_uring> ring, int max_transfers);

  std::unique_ptr<io_uring> ring_;
  const int max_transfers_;
  int num_under_way_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_BASE_URING_H_
