// PromptlessBackend: a backend whose prompts cost next to nothing, and whose
// decode steps can be profiled.
#ifndef WINNOW_BENCH_BENCH_PROMPTLESS_H_
#define WINNOW_BENCH_BENCH_PROMPTLESS_H_

#include <optional>
#include <vector>

#include "backend/forwarding.h"
#include "bench/roofs/bench_memory.h"
#include "model/forward/model.h"

namespace winnow {

// Device times of a recorded step.
struct StepTimes {
  double recorded_seconds = 0;       // of the whole step, replayed: the median
  std::vector<LaunchTime> launches;  // each alone, one after another
};

// Forwards every call, except between LeaveOut and Compute. There it skips
// products, attention and choices, and appends random K and V. Hence a context
// of any length is ready after its appends and summaries; its tokens have no
// meaning.
class PromptlessBackend final : public ForwardingBackend {
 public:
  // For prompts of the model in steps of at most `max_rows` rows. Allocates its
  // memory from `real`. REQUIRES: model outlives this.
  static Result<std::unique_ptr<PromptlessBackend>> Create(
      std::unique_ptr<Backend> real, const Model& model, int max_rows);

  void LeaveOut() { leaves_out_ = true; }
  void Compute() { leaves_out_ = false; }
  // Also measures the next replayed step, `rounds` times. Its results are those
  // of the last time.
  void MeasureNextStep(int rounds) { rounds_ = rounds; }
  // Returns the measurement once. Fails if the device failed; nothing if no
  // step was replayed since.
  Result<std::optional<StepTimes>> TakeTimes();

  void Replay(Queue& queue, std::span<const std::byte> key,
              const std::function<void()>& enqueue) override;
  void Embed(Queue& queue, const EmbedArgs& args) override;
  void RmsNorm(Queue& queue, const RmsNormArgs& args) override;
  void Linear(Queue& queue, const LinearArgs& args) override;
  void GatedAct(Queue& queue, const GatedActArgs& args) override;
  void Append(Queue& queue, const LayerStep& step, const TokenInputs& inputs,
              const LayerCache& cache) override;
  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override;
  void Attend(Queue& queue, const LayerStep& step, const AttendArgs& args,
              const LayerCache& cache) override;
  void MergeStates(Queue& queue, const LayerStep& step,
                   const MergeStatesArgs& args) override;

 private:
  explicit PromptlessBackend(std::unique_ptr<Backend> backend)
      : ForwardingBackend(std::move(backend)), memory_(real()) {}
  Result<StepTimes> Measure(Queue& queue, std::span<const std::byte> key,
                            const std::function<void()>& enqueue);

  BenchMemory memory_;
  View k_, v_;  // [max rows, kv_heads, head_dim]
  bool leaves_out_ = false;
  int rounds_ = 0;
  std::optional<Result<StepTimes>> measured_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_PROMPTLESS_H_
