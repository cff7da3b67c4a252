#include "bench/ops/bench_verb_times.h"

namespace winnow {

Result<VerbSeconds> VerbTimesBackend::Take() {
  measures_ = false;
  const VerbSeconds seconds = std::exchange(seconds_, {});
  RETURN_IF_ERROR(std::exchange(status_, Ok{}));
  return seconds;
}

void VerbTimesBackend::Run(Queue& queue, double VerbSeconds::* seconds,
                           const std::function<void()>& verb) {
  if (!measures_ || !status_.ok()) return verb();
  const Result<std::vector<LaunchTime>> times = real().Profile(queue, verb);
  if (!times.ok()) {
    status_ = times.error();
    return;
  }
  for (const LaunchTime& time : *times) seconds_.*seconds += time.seconds;
}

void VerbTimesBackend::Replay(Queue& queue, std::span<const std::byte> key,
                              const std::function<void()>& enqueue) {
  // What waits cannot be recorded.
  if (measures_) return enqueue();
  real().Replay(queue, key, enqueue);
}

void VerbTimesBackend::Embed(Queue& queue, const EmbedArgs& args) {
  Run(queue, &VerbSeconds::rest, [&] { real().Embed(queue, args); });
}

void VerbTimesBackend::RmsNorm(Queue& queue, const RmsNormArgs& args) {
  Run(queue, &VerbSeconds::rest, [&] { real().RmsNorm(queue, args); });
}

void VerbTimesBackend::Linear(Queue& queue, const LinearArgs& args) {
  Run(queue, &VerbSeconds::products, [&] { real().Linear(queue, args); });
}

void VerbTimesBackend::RotaryAngles(Queue& queue, const LayerStep& step,
                                    const RotaryAnglesArgs& args) {
  Run(queue, &VerbSeconds::rest,
      [&] { real().RotaryAngles(queue, step, args); });
}

void VerbTimesBackend::GatedAct(Queue& queue, const GatedActArgs& args) {
  Run(queue, &VerbSeconds::rest, [&] { real().GatedAct(queue, args); });
}

void VerbTimesBackend::Append(Queue& queue, const LayerStep& step,
                              const TokenInputs& inputs,
                              const LayerCache& cache) {
  Run(queue, &VerbSeconds::rest,
      [&] { real().Append(queue, step, inputs, cache); });
}

void VerbTimesBackend::Summarize(Queue& queue, const LayerStep& step,
                                 const SummarizeArgs& args,
                                 const LayerCache& cache) {
  Run(queue, &VerbSeconds::choices,
      [&] { real().Summarize(queue, step, args, cache); });
}

void VerbTimesBackend::Index(Queue& queue, const LayerStep& step,
                             const IndexArgs& args, const LayerCache& cache) {
  Run(queue, &VerbSeconds::choices,
      [&] { real().Index(queue, step, args, cache); });
}

void VerbTimesBackend::Select(Queue& queue, const LayerStep& step,
                              const SelectArgs& args, const LayerCache& cache) {
  Run(queue, &VerbSeconds::choices,
      [&] { real().Select(queue, step, args, cache); });
}

void VerbTimesBackend::Bring(Queue& queue, const LayerStep& step,
                             const BringArgs& args, const LayerCache& cache) {
  Run(queue, &VerbSeconds::attention,
      [&] { real().Bring(queue, step, args, cache); });
}

void VerbTimesBackend::Read(Queue& queue, const LayerStep& step,
                            const ReadArgs& args, const LayerCache& cache) {
  Run(queue, &VerbSeconds::attention,
      [&] { real().Read(queue, step, args, cache); });
}

void VerbTimesBackend::Combine(Queue& queue, const LayerStep& step,
                               const CombineArgs& args) {
  Run(queue, &VerbSeconds::attention,
      [&] { real().Combine(queue, step, args); });
}

void VerbTimesBackend::GatherRows(Queue& queue, const GatherRowsArgs& args) {
  Run(queue, &VerbSeconds::rest, [&] { real().GatherRows(queue, args); });
}

void VerbTimesBackend::Sample(Queue& queue, const SampleArgs& args) {
  Run(queue, &VerbSeconds::rest, [&] { real().Sample(queue, args); });
}

}  // namespace winnow
