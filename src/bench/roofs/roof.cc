#include "bench/roofs/roof.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <numeric>

#include "base/check.h"

namespace winnow {
namespace {

constexpr size_t kGrainBytes = size_t{1} << 20;
constexpr int kNumPasses = 3;
// Last-level caches of 300 MiB exist; a pass over seven times as much finds
// next to nothing of the pass before.
constexpr size_t kRoofBytes = size_t{2} << 30;

// What an item of a pass has at least, where there is enough for all workers.
constexpr size_t kLeastItemBytes = size_t{32} << 10;
constexpr size_t kItemsAWorker = 8;

// One cache line; the compiler cuts it into the registers of the target.
using Line = uint64_t __attribute__((vector_size(64)));

constexpr size_t kAheadBytes = 4096;

// Walks over pieces in steps, and stays behind the last. REQUIRES: they are
// whole steps, but for a rest of some that is left out.
template <size_t kStepBytes>
class StepCursor {
 public:
  explicit StepCursor(std::span<const Bytes> pieces) : pieces_(pieces) {
    Enter();
  }

  const std::byte* at() const { return at_; }
  bool ended() const { return index_ == pieces_.size(); }
  __attribute__((always_inline)) void Next() {
    if (ended()) return;
    at_ += kStepBytes;
    if (at_ < end_) return;
    ++index_;
    Enter();
  }

 private:
  void Enter() {
    while (!ended() && pieces_[index_].size() < kStepBytes) ++index_;
    if (ended()) return;
    at_ = pieces_[index_].data();
    end_ = at_ + pieces_[index_].size() / kStepBytes * kStepBytes;
  }

  const std::span<const Bytes> pieces_;
  size_t index_ = 0;
  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
};

// Adds lines in eight independent chains, so that the loads and not the
// additions are the limit. Measured (16 cores of a Sapphire Rapids, GB/s):
// one chain without wide loads 94, this 184, with the prefetch 189; several
// streams a worker, or prefetching past the caches, lose.
template <int kChains>
__attribute__((always_inline)) inline uint64_t SumChains(
    std::span<const Bytes> pieces) {
  constexpr size_t kStepBytes = kChains * sizeof(Line);
  using Cursor = StepCursor<kStepBytes>;
  Cursor ahead(pieces);
  for (size_t i = 0; i < kAheadBytes / kStepBytes; ++i) ahead.Next();
  Line sums[kChains] = {};
  for (Cursor step(pieces); !step.ended(); step.Next(), ahead.Next()) {
    const std::byte* at = step.at();
    const std::byte* fetched = ahead.at();
    for (int chain = 0; chain < kChains; ++chain) {
      __builtin_prefetch(fetched + chain * sizeof(Line));
      Line line;
      std::memcpy(&line, at + chain * sizeof(Line), sizeof(line));
      sums[chain] += line;
    }
  }
  for (int chain = 1; chain < kChains; ++chain) sums[0] += sums[chain];
  uint64_t sum = 0;
  for (int word = 0; word < 8; ++word) sum += sums[0][word];
  return sum;
}

// Eight lines at a time, or as many as divide all pieces.
__attribute__((always_inline)) inline uint64_t SumLines(
    std::span<const Bytes> pieces, size_t piece_bytes) {
  if (piece_bytes % 512 == 0) return SumChains<8>(pieces);
  if (piece_bytes % 128 == 0) return SumChains<2>(pieces);
  return SumChains<1>(pieces);
}

using Sum = uint64_t (*)(std::span<const Bytes> pieces, size_t piece_bytes);

uint64_t SumPortably(std::span<const Bytes> pieces, size_t piece_bytes) {
  return SumLines(pieces, piece_bytes);
}

__attribute__((target("avx2"))) uint64_t SumAvx2(std::span<const Bytes> pieces,
                                                 size_t piece_bytes) {
  return SumLines(pieces, piece_bytes);
}

__attribute__((target("avx512f"))) uint64_t
SumAvx512(std::span<const Bytes> pieces, size_t piece_bytes) {
  return SumLines(pieces, piece_bytes);
}

Sum WidestSum() {
  if (__builtin_cpu_supports("avx512f")) return SumAvx512;
  if (__builtin_cpu_supports("avx2")) return SumAvx2;
  return SumPortably;
}

}  // namespace

double SecondsOf(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Median(std::vector<double> values) {
  CHECK(!values.empty(), "the median of nothing");
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::pair<double, double> Quartiles(std::vector<double> values) {
  CHECK(!values.empty(), "the quartiles of nothing");
  std::ranges::sort(values);
  return {values[values.size() / 4], values[values.size() * 3 / 4]};
}

int64_t UncachedBytes() {
  // Unknown is 0 or less.
  const auto cache = static_cast<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE));
  return std::max(int64_t{512} << 20, 3 * cache);
}

PlainRead::PlainRead(ThreadPool& pool, std::span<const Bytes> pieces)
    : pool_(pool), sums_(static_cast<size_t>(pool.num_workers()) * 8) {
  for (const Bytes piece : pieces) {
    num_bytes_ += piece.size();
    piece_bytes_ = std::gcd(piece_bytes_, piece.size());
  }
  const size_t num_items =
      kItemsAWorker * static_cast<size_t>(pool.num_workers());
  const size_t item_bytes =
      std::clamp(num_bytes_ / num_items, kLeastItemBytes, kGrainBytes) /
      kLeastItemBytes * kLeastItemBytes;
  for (const Bytes piece : pieces) {
    for (size_t at = 0; at < piece.size(); at += item_bytes) {
      grains_.push_back(
          piece.subspan(at, std::min(item_bytes, piece.size() - at)));
    }
  }
  AddItems(item_bytes);
}

void PlainRead::AddItems(size_t item_bytes) {
  for (size_t first = 0; first < grains_.size();) {
    size_t end = first, bytes = 0;
    while (end < grains_.size() && bytes < item_bytes) {
      bytes += grains_[end++].size();
    }
    items_.push_back({first, end});
    first = end;
  }
}

// Long enough for a sleeping thread to join, and for the threads of another
// pool that has just worked to fall asleep.
void PlainRead::Rouse() {
  constexpr double kSeconds = 200e-6;
  pool_.ParallelFor(pool_.num_workers(), [&](int64_t, int) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    while (std::chrono::duration<double>(Clock::now() - start).count() <
           kSeconds) {
    }
  });
}

double PlainRead::Seconds() {
  const Sum sum = WidestSum();
  Rouse();
  const double seconds = SecondsOf([&] {
    pool_.ParallelFor(std::ssize(items_), [&](int64_t index, int worker) {
      const Item item = items_[static_cast<size_t>(index)];
      sums_[static_cast<size_t>(worker) * 8] +=
          sum(std::span<const Bytes>(grains_).subspan(item.first,
                                                      item.end - item.first),
              piece_bytes_);
    });
  });
  // Storing what was read keeps the compiler from dropping the loads.
  volatile uint64_t kept = 0;
  for (const uint64_t worker_sum : sums_) kept = kept + worker_sum;
  return seconds;
}

double ReadBytesPerSecond(ThreadPool& pool, std::span<const Bytes> pieces) {
  PlainRead read(pool, pieces);
  double best = 0;
  for (int pass = 0; pass < kNumPasses; ++pass) {
    best = std::max(best, read.BytesPerSecond());
  }
  return best;
}

Result<ReadRoof> ReadRoof::Create(ThreadPool& pool) {
  ASSIGN_OR_RETURN(Buffer buffer,
                   Buffer::AllocateHost(kRoofBytes, "the read roof"));
  // Untouched pages would all be one page of zeros, and cached.
  pool.ParallelRanges(
      kRoofBytes, int64_t{kGrainBytes}, [&](int64_t begin, int64_t end, int) {
        std::memset(buffer.data() + begin, 1, static_cast<size_t>(end - begin));
      });
  return ReadRoof(pool, std::move(buffer));
}

double ReadRoof::BytesPerSecond() const {
  const Bytes all(buffer_.data(), buffer_.num_bytes());
  return ReadBytesPerSecond(*pool_, {&all, 1});
}

}  // namespace winnow
