// A backend whose prompts cost next to nothing, and whose decode steps can be
// looked into.
#ifndef WINNOW_BENCH_BENCH_PROMPTLESS_H_
#define WINNOW_BENCH_BENCH_PROMPTLESS_H_

#include <optional>
#include <vector>

#include "backend/forwarding.h"
#include "bench/roofs/bench_memory.h"
#include "model/forward/model.h"

namespace winnow {

// What a recorded step took on the device.
struct StepTimes {
  double recorded_seconds = 0;       // all of it, replayed: the median
  std::vector<LaunchTime> launches;  // each alone, one after the other
};

// Passes every call on, but between LeaveOut and Compute: then products,
// attention and choices are left out, and random K and V are appended, so that
// a context of any length is there after its appends and summaries. What
// tokens mean is lost.
class PromptlessBackend final : public ForwardingBackend {
 public:
  // For prompts of the model in steps of at most `max_rows` rows. `bench`
  // memory is taken from `real`. REQUIRES: model outlives this.
  static Result<std::unique_ptr<PromptlessBackend>> Create(
      std::unique_ptr<Backend> real, const Model& model, int max_rows);

  void LeaveOut() { leaves_out_ = true; }
  void Compute() { leaves_out_ = false; }
  // The next step that is replayed is also measured, `rounds` times. Its
  // answers are those of the last time.
  void MeasureNextStep(int rounds) { rounds_ = rounds; }
  // What was measured, once. Fails where the device did; nothing where no step
  // has been replayed since.
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
