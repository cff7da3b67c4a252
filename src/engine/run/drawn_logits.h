// DrawnLogits: the logits of every row that draws, held to those of another
// run, for tests.
#ifndef WINNOW_ENGINE_RUN_DRAWN_LOGITS_H_
#define WINNOW_ENGINE_RUN_DRAWN_LOGITS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace winnow {

// Knows rows by their request's seed and which of its draws they are, so seeds
// must tell requests apart; those of seed 0 are nobody's. Header only: tests
// alone include it.
class DrawnLogits {
 public:
  // From now on rows are what later runs are held to.
  void Record() { records_ = true; }
  // From now on rows must be those that were recorded, to the bit.
  void Compare() {
    records_ = false;
    num_compared_.clear();
  }
  // Takes the rows of a Sample that is about to run, on the host.
  void Take(const SampleArgs& args);
  // Of a request: one more than the last draw that was compared; none was left
  // out before it.
  uint64_t num_compared(uint64_t seed) const {
    const auto found = num_compared_.find(seed);
    return found == num_compared_.end() ? 0 : found->second;
  }

 private:
  void CompareRow(const SamplingRow& row, std::span<const float> logits);

  bool records_ = true;
  // By seed and draw: [vocab].
  std::map<std::pair<uint64_t, uint64_t>, std::vector<float>> recorded_;
  std::map<uint64_t, uint64_t> num_compared_;  // by seed
};

inline void DrawnLogits::Take(const SampleArgs& args) {
  const auto vocab = static_cast<size_t>(args.logits.dim(1));
  const auto* logits = reinterpret_cast<const float*>(args.logits.data);
  for (int64_t i = 0; i < args.logits.dim(0); ++i) {
    const SamplingRow& row = args.rows[i];
    const std::span<const float> own(logits + static_cast<size_t>(i) * vocab,
                                     vocab);
    if (row.seed == 0) continue;
    if (records_) {
      EXPECT_NE(own[0], own[1]);  // They are there already.
      recorded_[{row.seed, row.draw}].assign(own.begin(), own.end());
    } else {
      CompareRow(row, own);
    }
  }
}

inline void DrawnLogits::CompareRow(const SamplingRow& row,
                                    std::span<const float> logits) {
  const auto found = recorded_.find({row.seed, row.draw});
  ASSERT_NE(found, recorded_.end())
      << "seed " << row.seed << " draw " << row.draw << " was never made";
  uint64_t& count = num_compared_[row.seed];
  EXPECT_LE(row.draw, count) << "a draw was left out";
  count = std::max(count, row.draw + 1);
  EXPECT_EQ(
      std::memcmp(found->second.data(), logits.data(), logits.size_bytes()), 0)
      << "logits of seed " << row.seed << " draw " << row.draw;
}

}  // namespace winnow

#endif  // WINNOW_ENGINE_RUN_DRAWN_LOGITS_H_
