// A backend that says what verbs take, by what they are for.
#ifndef WINNOW_BENCH_OPS_BENCH_VERB_TIMES_H_
#define WINNOW_BENCH_OPS_BENCH_VERB_TIMES_H_

#include "backend/forwarding.h"

namespace winnow {

// Seconds of verbs that ran one after the other, by the device's own clock.
struct VerbSeconds {
  double products = 0;   // Linear, with the verbs that it does in its launch
  double attention = 0;  // Read, Combine, Bring
  double choices = 0;    // Summarize, Index, Select
  double rest = 0;       // every other verb

  double sum() const { return products + attention + choices + rest; }
};

// Passes every call on. Between Measure and Take each verb runs alone and is
// waited for, and nothing is recorded: the answers are the same.
class VerbTimesBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  void Measure() { measures_ = true; }
  // What the verbs since Measure took; fails where the device did.
  Result<VerbSeconds> Take();

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
  void Index(Queue& queue, const LayerStep& step, const IndexArgs& args,
             const LayerCache& cache) override;
  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override;
  void Bring(Queue& queue, const LayerStep& step, const BringArgs& args,
             const LayerCache& cache) override;
  void Read(Queue& queue, const LayerStep& step, const ReadArgs& args,
            const LayerCache& cache) override;
  void Combine(Queue& queue, const LayerStep& step,
               const CombineArgs& args) override;
  void GatherRows(Queue& queue, const GatherRowsArgs& args) override;
  void Sample(Queue& queue, const SampleArgs& args) override;

 private:
  // Enqueues a verb, and adds what it takes to `seconds` while measuring.
  void Run(Queue& queue, double VerbSeconds::* seconds,
           const std::function<void()>& verb);

  bool measures_ = false;
  VerbSeconds seconds_;
  Status status_ = Ok{};
};

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_VERB_TIMES_H_
