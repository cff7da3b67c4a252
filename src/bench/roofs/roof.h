// ReadRoof: this machine's limits, measured in the same run as the figures
// beside them.
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

// The number of bytes, read in turn, that exceeds the last cache level.
int64_t UncachedBytes();

// One pass over `pieces` by all workers, with the widest loads of this CPU.
// Compared in turn with an op that reads the same bytes.
class PlainRead {
 public:
  // REQUIRES: pool and the pieces' memory outlive this.
  PlainRead(ThreadPool& pool, std::span<const Bytes> pieces);

  // The clock starts after the workers are awake.
  double Seconds();
  double BytesPerSecond() {
    return static_cast<double>(num_bytes_) / Seconds();
  }

 private:
  void Rouse();
  // An item of work is the pieces [first, end).
  struct Item {
    size_t first = 0;
    size_t end = 0;
  };
  void AddItems(size_t item_bytes);

  ThreadPool& pool_;
  std::vector<Bytes> grains_;
  std::vector<Item> items_;
  std::vector<uint64_t> sums_;  // a cache line for each worker
  size_t num_bytes_ = 0;
  size_t piece_bytes_ = 0;  // of a part of a piece
};

// Bytes a second of all workers that read all of `pieces` once with the widest
// loads of this CPU: the best of several passes.
double ReadBytesPerSecond(ThreadPool& pool, std::span<const Bytes> pieces);

// The roof of ops that memory bounds. Owns a buffer larger than the last-level
// cache, on huge pages if the system gives them. REQUIRES: `pool` outlives it.
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

// Seconds of one call of `work`.
double SecondsOf(const std::function<void()>& work);

// REQUIRES of both: not empty.
double Median(std::vector<double> values);
std::pair<double, double> Quartiles(std::vector<double> values);

}  // namespace winnow

#endif  // WINNOW_BENCH_ROOFS_ROOF_H_
