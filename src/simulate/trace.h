// Trace: the recorded picks of a model's rows, as plain data.
#ifndef WINNOW_SIMULATE_TRACE_H_
#define WINNOW_SIMULATE_TRACE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/contract/picks.h"
#include "base/ids.h"

namespace winnow {

// A level is a multiple of the selection's budget, in thousandths. Lists are
// recorded at several levels, so ranks are known in coarse steps within the
// budget and behind it.
inline constexpr int kBudgetLevel = 1000;
inline constexpr int kMaxLevels = 16;
inline constexpr int kMaxLevel = 1000 * kBudgetLevel;

// The facts that a whole trace shares.
struct TraceHeader {
  std::string model;   // the checkpoint folder's name
  std::string select;  // the SPEC
  int num_q_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int kv_element_bytes = 0;
  // Summaries of 1,024 tokens of one (layer, KV head).
  int64_t summary_bytes = 0;
  std::vector<bool>
      chooses;  // by layer: true if lists are recorded; false if dense
  // Ascending; kBudgetLevel is one of them.
  std::vector<int> levels;

  int num_layers() const { return static_cast<int>(chooses.size()); }
  int num_choosing_layers() const;
  // The index of kBudgetLevel.
  int budget_level() const;

  friend bool operator==(const TraceHeader&, const TraceHeader&) = default;
};

// The scores of a band's picks, each the greatest of its tokens. They are
// stored in steps of (most - least) / 254, so they are off by half a step at
// most, and the extremes are exact. A band has few ranks, so its scores lie
// close together.
struct BandScores {
  static constexpr int kSteps = 254;
  static constexpr uint8_t kNone = 255;  // forced, or no score decides

  float least = 0, most = 0;   // over picks with a score
  std::vector<uint8_t> steps;  // by pick; empty: no pick has a score

  // -infinity: no score.
  float ScoreOf(size_t pick) const;
  friend bool operator==(const BandScores&, const BandScores&) = default;
};
// `scores` by pick; a value that is not finite means no score.
BandScores BandScoresOf(std::span<const float> scores);

// One list of one row: the picks that each level adds to those below. Levels up
// to the budget's together were read; levels above are the next ranks.
struct TraceList {
  bool reads_all = false;  // reads every page; no bands then
  // By level; pages ascend in each, and no token is in two.
  std::vector<std::vector<Pick>> bands;
  std::vector<BandScores> scores = {};  // by level

  friend bool operator==(const TraceList&, const TraceList&) = default;
};

// One row's lists in one layer: 1 (it reads all), one for each KV head or one
// for each q head.
using TraceRowLists = std::vector<TraceList>;

// Decode rows of one request that selected together, in one call of Select for
// each layer. One Fetch serves them.
struct TraceStep {
  int num_rows = 0;
  // [selecting layers][rows], layers ascending.
  std::vector<std::vector<TraceRowLists>> layers;

  friend bool operator==(const TraceStep&, const TraceStep&) = default;
};

// One question and its answer. Rows stand at consecutive positions.
struct TraceRequest {
  std::string task;
  std::string origin;  // FILE:LINE
  bool answered_right = false;
  int64_t first_position = 0;
  std::vector<TraceStep> steps;

  int64_t num_rows() const;

  friend bool operator==(const TraceRequest&, const TraceRequest&) = default;
};

}  // namespace winnow

#endif  // WINNOW_SIMULATE_TRACE_H_
