// OpTimesBackend: a backend that measures ops by purpose.
#ifndef WINNOW_BENCH_OPS_BENCH_OP_TIMES_H_
#define WINNOW_BENCH_OPS_BENCH_OP_TIMES_H_

#include "backend/forwarding.h"

namespace winnow {

// Seconds of ops that ran one after another, by the device's clock.
struct OpSeconds {
  double products = 0;   // Linear, with the ops fused into its launch
  double attention = 0;  // Attend, MergeStates, Fetch
  double choices = 0;    // Summarize, ClusterKeys, Select
  double rest = 0;       // every other op

  double sum() const { return products + attention + choices + rest; }
};

// Forwards every call. Between Measure and Take each op runs alone, is waited
// for, and is not recorded; results stay the same.
class OpTimesBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  void Measure() { measures_ = true; }
  // Returns the times of the ops since Measure. Fails if the device failed.
  Result<OpSeconds> Take();

  void Replay(Queue& queue, std::span<const std::byte> key,
              const std::function<void()>& enqueue) override;
  void Embed(Queue& queue, const EmbedArgs& args) override;
  void RmsNorm(Queue& queue, const RmsNormArgs& args) override;
  void Linear(Queue& queue, const LinearArgs& args) override;
  void RotaryAngles(Queue& queue, const LayerStep& step,
                    const RotaryAnglesArgs& args) override;
  void GatedAct(Queue& queue, const GatedActArgs& args) override;
  void Append(Queue& queue, const LayerStep& step, const TokenInputs& inputs,
              const LayerCache& cache) override;
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
  void GatherRows(Queue& queue, const GatherRowsArgs& args) override;
  void Sample(Queue& queue, const SampleArgs& args) override;

 private:
  // Enqueues an op, and adds its time to `seconds` while measuring.
  void Run(Queue& queue, double OpSeconds::* seconds,
           const std::function<void()>& op);

  bool measures_ = false;
  OpSeconds seconds_;
  Status status_ = Ok{};
};

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_OP_TIMES_H_
