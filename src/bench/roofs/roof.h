// What this machine can do at most, measured in the run that it is compared
// with.
#ifndef WINNOW_BENCH_ROOFS_ROOF_H_
#define WINNOW_BENCH_ROOFS_ROOF_H_

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/buffer.h"

namespace winnow {

using Bytes = std::span<const std::byte>;

// So many bytes, read in turn, are more than the last cache level keeps.
int64_t UncachedBytes();

// One pass over `pieces` by all workers, with the widest loads of this CPU:
// what an op that reads the same bytes is set beside, in turn with it.
class PlainRead {
 public:
  // REQUIRES: pool and the pieces' memory outlive this.
  PlainRead(ThreadPool& pool, std::span<const Bytes> pieces);

  // The workers are awake when the time begins.
  double Seconds();
  double BytesPerSecond() {
    return static_cast<double>(num_bytes_) / Seconds();
  }

 private:
  void Rouse();
  // Pieces [first, end) are an item.
  struct Item {
    size_t first = 0;
    size_t end = 0;
  };
  void AddItems(size_t item_bytes);

  ThreadPool& pool_;
  std::vector<Bytes> grains_;
  std::vector<Item> items_;
  std::vector<uint64_t> sums_;  // a cache line a worker
  size_t num_bytes_ = 0;
  size_t piece_bytes_ = 0;  // which divide each piece
};

// Bytes a second that all workers reach by reading all of `pieces` once with
// the widest loads of this CPU: the best of several passes.
double ReadBytesPerSecond(ThreadPool& pool, std::span<const Bytes> pieces);

// The roof of whatever is bound by memory. Owns a buffer larger than the
// last-level cache, on huge pages where the system gives them. `pool` must
// outlive it.
class ReadRoof {
 public:
  static Result<ReadRoof> Create(ThreadPool& pool);
  double BytesPerSecond() const;

 private:
  ReadRoof(ThreadPool& pool, Buffer buffer)
      : pool_(&pool), buffer_(std::move(buffer)) {}

  ThreadPool* pool_;
  Buffer buffer_;
};

// Seconds that `work` takes, once.
double SecondsOf(const std::function<void()>& work);

// REQUIRES of both: not empty.
double Median(std::vector<double> values);
std::pair<double, double> Quartiles(std::vector<double> values);

}  // namespace winnow

#endif  // WINNOW_BENCH_ROOFS_ROOF_H_
