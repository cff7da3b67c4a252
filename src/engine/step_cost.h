// How long a step takes: foretold from what it computes, learnt from those that
// have run.
#ifndef WINNOW_ENGINE_STEP_COST_H_
#define WINNOW_ENGINE_STEP_COST_H_

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "engine/step_plan.h"

namespace winnow {

// What a step's time grows with. An item that goes through some of the layers
// counts for their share.
struct StepWork {
  double rows = 0;   // through all layers
  double reads = 0;  // of tokens by these rows: one behind n tokens may read n

  StepWork& operator+=(const StepWork& other);
  friend StepWork operator+(StepWork a, const StepWork& b) { return a += b; }
  friend bool operator==(const StepWork&, const StepWork&) = default;
};

StepWork WorkOf(const StepItem& item, int num_layers);
StepWork WorkOf(const StepPlan& plan, int num_layers);

// A line through what was measured, and how far that went. Plain data: part of
// what a schedule is made from.
struct StepCost {
  double step_ms = 0;
  double row_ms = 0;
  double read_ms = 0;
  StepWork most = {};  // of any step that was measured; nothing: none was

  double MsOf(const StepWork& work) const;
  // Whether it may be told of so much work: of twice the rows that were
  // measured and, as twice the rows behind a longer context are more than twice
  // the reads, of four times those.
  bool Covers(const StepWork& work) const;

  friend bool operator==(const StepCost&, const StepCost&) = default;
};

// Steps are told apart by their size, rows and reads by powers of two; of each
// size the last kNumKept count, by their median: so a stall of the machine, or
// an hour of steps of one size, changes little of what is known of the others.
// What is sought is the line of the least squares of relative errors, of which
// those of late count for most; none of its terms is negative.
class StepCostFit {
 public:
  static constexpr size_t kNumKept = 7;
  static constexpr size_t kMaxSizes = 64;  // then the one last seen goes

  // REQUIRES: work.rows and ms are above 0.
  void Add(const StepWork& work, double ms);
  const StepCost& cost() const { return cost_; }

 private:
  struct Sample {
    StepWork work;
    double ms = 0;
  };
  struct Size {
    std::array<Sample, kNumKept> samples;  // a ring
    size_t num_added = 0;
    uint64_t last_added = 0;

    // Of those that are kept the one whose time is in the middle.
    Sample Median() const;
  };

  void Fit();

  std::map<std::pair<int, int>, Size> sizes_;
  uint64_t num_added_ = 0;
  StepCost cost_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_STEP_COST_H_
