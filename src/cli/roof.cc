#include "cli/roof.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>

#include "base/check.h"

namespace winnow {
namespace {

constexpr size_t kGrainBytes = size_t{1} << 20;
constexpr int kNumPasses = 3;
// Last-level caches of 300 MiB exist; a pass over seven times as much finds
// next to nothing of the pass before.
constexpr size_t kRoofBytes = size_t{2} << 30;

// One cache line; the compiler cuts it into the registers of the target.
using Line = uint64_t __attribute__((vector_size(64)));

// Adds lines in eight independent chains, so that the loads and not the
// additions are the limit. Measured (16 cores of a Sapphire Rapids, GB/s):
// one chain without wide loads 94, this 184, with the prefetch 189; several
// streams a worker, or prefetching past the caches, lose.
__attribute__((always_inline)) inline uint64_t SumLines(const std::byte* data,
                                                        int64_t num_bytes) {
  constexpr int kChains = 8;
  constexpr int64_t kStepBytes = kChains * sizeof(Line);
  constexpr int64_t kAheadBytes = 4096;
  Line sums[kChains] = {};
  for (int64_t i = 0; i + kStepBytes <= num_bytes; i += kStepBytes) {
    for (int chain = 0; chain < kChains; ++chain) {
      const std::byte* at = data + i + chain * sizeof(Line);
      __builtin_prefetch(at + kAheadBytes);
      Line line;
      std::memcpy(&line, at, sizeof(line));
      sums[chain] += line;
    }
  }
  for (int chain = 1; chain < kChains; ++chain) sums[0] += sums[chain];
  uint64_t sum = 0;
  for (int word = 0; word < 8; ++word) sum += sums[0][word];
  return sum;
}

using Sum = uint64_t (*)(const std::byte* data, int64_t num_bytes);

uint64_t SumPortably(const std::byte* data, int64_t num_bytes) {
  return SumLines(data, num_bytes);
}

__attribute__((target("avx2"))) uint64_t SumAvx2(const std::byte* data,
                                                 int64_t num_bytes) {
  return SumLines(data, num_bytes);
}

__attribute__((target("avx512f"))) uint64_t SumAvx512(const std::byte* data,
                                                      int64_t num_bytes) {
  return SumLines(data, num_bytes);
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

double ReadBytesPerSecond(ThreadPool& pool, std::span<const Bytes> pieces) {
  std::vector<Bytes> grains;
  size_t num_bytes = 0;
  for (const Bytes piece : pieces) {
    num_bytes += piece.size();
    for (size_t at = 0; at < piece.size(); at += kGrainBytes) {
      grains.push_back(
          piece.subspan(at, std::min(kGrainBytes, piece.size() - at)));
    }
  }
  const Sum sum = WidestSum();
  std::vector<uint64_t> sums(static_cast<size_t>(pool.num_workers()) * 8);
  double best_seconds = 0;
  for (int pass = 0; pass < kNumPasses; ++pass) {
    const double seconds = SecondsOf([&] {
      pool.ParallelFor(std::ssize(grains), [&](int64_t item, int worker) {
        const Bytes grain = grains[static_cast<size_t>(item)];
        sums[static_cast<size_t>(worker) * 8] +=
            sum(grain.data(), std::ssize(grain));
      });
    });
    if (pass == 0 || seconds < best_seconds) best_seconds = seconds;
  }
  // Storing what was read keeps the compiler from dropping the loads.
  volatile uint64_t kept = 0;
  for (const uint64_t worker_sum : sums) kept = kept + worker_sum;
  return static_cast<double>(num_bytes) / best_seconds;
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
