// DecodeSide: one of the two engines that winnow bench decode compares.
#ifndef WINNOW_BENCH_OPS_BENCH_DECODE_SIDE_H_
#define WINNOW_BENCH_OPS_BENCH_DECODE_SIDE_H_

#include <memory>
#include <optional>
#include <utility>

#include "backend/forwarding.h"
#include "bench/bench_cells.h"
#include "engine/engine.h"

namespace winnow {

// Seconds of a step and of its attention, averaged over a turn.
struct DecodeTurn {
  double step_seconds = 0, attention_seconds = 0;
};

// The relative rate of a dense step whose attention alone takes
// `attention_seconds` (Amdahl).
inline double AmdahlRate(const DecodeTurn& dense, double attention_seconds) {
  return dense.step_seconds /
         (dense.step_seconds - dense.attention_seconds + attention_seconds);
}

// Measures the time of attention: summaries, clusters, choices, their fetches,
// Attend and MergeStates. REQUIRES: an op has ended when its call returns.
class AttentionTimer final : public ForwardingBackend {
 public:
  explicit AttentionTimer(std::unique_ptr<Backend> real)
      : ForwardingBackend(std::move(real)) {}

  void Summarize(Queue& queue, const LayerStep& step, const SummarizeArgs& args,
                 const LayerCache& cache) override;
  void ClusterKeys(Queue& queue, const LayerStep& step,
                   const ClusterKeysArgs& args,
                   const LayerCache& cache) override;
  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override;
  void Fetch(Queue& queue, const LayerStep& step, const FetchArgs& args,
             const LayerCache& cache) override;
  void Attend(Queue& queue, const LayerStep& step, const AttendArgs& args,
              const LayerCache& cache) override;
  void MergeStates(Queue& queue, const LayerStep& step,
                   const MergeStatesArgs& args) override;

  // Seconds since the last call.
  double TakeSeconds() { return std::exchange(seconds_, 0); }

 private:
  double seconds_ = 0;
};

// Owns an engine and its requests, whose prompts have been read. REQUIRES: the
// backend, which contains `timer`, and the model outlive it.
class DecodeSide {
 public:
  static Result<std::unique_ptr<DecodeSide>> Create(
      Backend& backend, AttentionTimer& timer, const Model& model,
      const EngineOptions& options, const Request& request, int batch);

  // Runs steps that no turn counts.
  Status Step(int num_steps);
  Status TakeTurn(int num_steps);
  const DecodeTurn& turn() const { return turn_; }  // the last one

 private:
  explicit DecodeSide(AttentionTimer& timer) : timer_(timer) {}

  AttentionTimer& timer_;
  std::unique_ptr<Engine> engine_;
  std::optional<CellRequests> requests_;
  DecodeTurn turn_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_DECODE_SIDE_H_
