#include "cli/roof.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace winnow {
namespace {

constexpr int64_t kGrainBytes = 1 << 20;
constexpr int kNumPasses = 5;

// Sums 64-bit words in eight independent chains, so that the loads and not the
// additions are the limit.
uint64_t SumWords(const std::byte* data, int64_t num_bytes) {
  uint64_t sums[8] = {};
  uint64_t words[8];
  for (int64_t i = 0; i + 64 <= num_bytes; i += 64) {
    std::memcpy(words, data + i, sizeof(words));
    for (int lane = 0; lane < 8; ++lane) sums[lane] += words[lane];
  }
  uint64_t sum = 0;
  for (const uint64_t lane : sums) sum += lane;
  return sum;
}

}  // namespace

double MedianSeconds(int num_runs, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  work();
  for (int run = 0; run < num_runs; ++run) {
    const Clock::time_point start = Clock::now();
    work();
    seconds.push_back(
        std::chrono::duration<double>(Clock::now() - start).count());
  }
  const auto middle = seconds.begin() + num_runs / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

double ReadBytesPerSecond(ThreadPool& pool, std::span<const std::byte> bytes) {
  const auto num_bytes = static_cast<int64_t>(bytes.size());
  std::vector<uint64_t> sums(static_cast<size_t>(pool.num_workers()) * 8);
  const double seconds = MedianSeconds(kNumPasses, [&] {
    pool.ParallelRanges(num_bytes, kGrainBytes,
                        [&](int64_t begin, int64_t end, int worker) {
                          sums[static_cast<size_t>(worker) * 8] +=
                              SumWords(bytes.data() + begin, end - begin);
                        });
  });
  // Storing what was read keeps the compiler from dropping the loads.
  volatile uint64_t kept = 0;
  for (const uint64_t sum : sums) kept = kept + sum;
  return static_cast<double>(num_bytes) / seconds;
}

}  // namespace winnow
