// How long a step takes: foretold from what it computes, learnt from those that
// have run.
#ifndef WINNOW_ENGINE_SCHEDULE_STEP_COST_H_
#define WINNOW_ENGINE_SCHEDULE_STEP_COST_H_

#include <array>
#include <cstdint>
#include <map>

#include "engine/schedule/step_plan.h"

namespace winnow {

// What a step's time grows with. An item that goes through some of the layers
// counts for their share. Items of one token, which generate as a rule, are
// apart from chunks: to read a token takes a row that is alone as long as
// memory does, and one of a chunk as long as arithmetic.
struct StepWork {
  double rows = 0;   // of chunks, through all layers
  double reads = 0;  // of tokens by these: one behind n tokens may read n
  double single_rows = 0;
  double single_reads = 0;

  // In no respect more than the other.
  bool IsWithin(const StepWork& other) const;

  StepWork& operator+=(const StepWork& other);
  friend StepWork operator+(StepWork a, const StepWork& b) { return a += b; }
  friend bool operator==(const StepWork&, const StepWork&) = default;
};

StepWork WorkOf(const StepItem& item, int num_layers);
StepWork WorkOf(const StepPlan& plan, int num_layers);

// A line through what was measured, how far that went, and how far it is to be
// believed. Plain data: part of what a schedule is made from.
struct StepCost {
  double step_ms = 0;
  double chunk_ms = 0;  // that any chunk adds
  double row_ms = 0;
  double read_ms = 0;
  double single_row_ms = 0;
  double single_read_ms = 0;
  // What is foretold of a step that somebody waits for counts so many times.
  double margin = 1;
  StepWork most = {};  // of any step that was measured; nothing: none was

  double MsOf(const StepWork& work) const;
  // Whether it may be told of such chunks: of twice the rows that were measured
  // and, as twice the rows behind a longer context are more than twice the
  // reads, of four times those. Rows that generate run whatever they take.
  bool Covers(const StepWork& work) const;

  friend bool operator==(const StepCost&, const StepCost&) = default;
};

// Steps are told apart by their size, each of its numbers by powers of two; of
// each size the last kNumKept count, by their median: so a stall of the
// machine, or an hour of steps of one size, changes little of what is known of
// the others. What is sought is the line of the least squares of relative
// errors, in which steps with chunks and steps without count alike, and of each
// those of late for most; none of its terms is negative. Noise alone makes no
// term: with fewer of them an error is kept that is no more than a tenth
// larger, and of as many rows explain it before reads do, so that what is
// foretold of larger steps is no less than they take.
//
// The margin follows the share of steps with chunks beside single rows that
// took longer than it said: it grows by kMarginRate times 1 - kOverShare with
// each that did, and shrinks by kMarginRate times kOverShare with each that did
// not (as logarithms). So whatever steps take, as long as that is no more than
// kMaxRatio times what the line says, of any n of them in a row at most
//   kOverShare n + ln(kMaxRatio) / kMarginRate + 1
// take longer (Gibbs and Candes, 2021: adaptive conformal inference).
class StepCostFit {
 public:
  static constexpr size_t kNumKept = 7;
  // With chunks, and as many without; then the one last seen goes.
  static constexpr size_t kMaxSizes = 64;
  static constexpr double kOverShare = 0.01;
  static constexpr double kMarginRate = 0.2;
  static constexpr double kMaxRatio = 16;

  // REQUIRES: work has rows, and ms is above 0.
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
  // Steps with chunks, or those without.
  struct Kind {
    std::map<std::array<int, 4>, Size> sizes;  // by powers of two
    uint64_t num_added = 0;
  };

  // A step has shown whether the margin sufficed.
  void Widen(const StepWork& work, double ms);
  void Fit();

  Kind chunks_;
  Kind singles_;
  StepCost cost_;
};

// Steps with single rows while their time was bounded, by whether chunks were
// beside them, and how many of them took longer than the bound.
struct BoundedSteps {
  struct Count {
    uint64_t num_steps = 0;
    uint64_t num_over = 0;
  };
  Count with_chunks = {}, without_chunks = {};

  // REQUIRES: work has single rows.
  void Add(const StepWork& work, bool is_over);
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_SCHEDULE_STEP_COST_H_
