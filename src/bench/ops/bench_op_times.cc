#include "bench/ops/bench_op_times.h"

namespace winnow {

Result<OpSeconds> OpTimesBackend::Take() {
  measures_ = false;
  const OpSeconds seconds = std::exchange(seconds_, {});
  RETURN_IF_ERROR(std::exchange(status_, Ok{}));
  return seconds;
}

void OpTimesBackend::Run(Queue& queue, double OpSeconds::* seconds,
                         const std::function<void()>& op) {
  if (!measures_ || !status_.ok()) return op();
  const Result<std::vector<LaunchTime>> times = real().Profile(queue, op);
  if (!times.ok()) {
    status_ = times.error();
    return;
  }
  for (const LaunchTime& time : *times) seconds_.*seconds += time.seconds;
}

void OpTimesBackend::Replay(Queue& queue, std::span<const std::byte> key,
                            const std::function<void()>& enqueue) {
  // What waits cannot be recorded.
  if (measures_) return enqueue();
  real().Replay(queue, key, enqueue);
}

void OpTimesBackend::Embed(Queue& queue, const EmbedArgs& args) {
  Run(queue, &OpSeconds::rest, [&] { real().Embed(queue, args); });
}

void OpTimesBackend::RmsNorm(Queue& queue, const RmsNormArgs& args) {
  Run(queue, &OpSeconds::rest, [&] { real().RmsNorm(queue, args); });
}

void OpTimesBackend::Linear(Queue& queue, const LinearArgs& args) {
  Run(queue, &OpSeconds::products, [&] { real().Linear(queue, args); });
}

void OpTimesBackend::RotaryAngles(Queue& queue, const LayerStep& step,
                                  const RotaryAnglesArgs& args) {
  Run(queue, &OpSeconds::rest, [&] { real().RotaryAngles(queue, step, args); });
}

void OpTimesBackend::GatedAct(Queue& queue, const GatedActArgs& args) {
  Run(queue, &OpSeconds::rest, [&] { real().GatedAct(queue, args); });
}

void OpTimesBackend::Append(Queue& queue, const LayerStep& step,
                            const TokenInputs& inputs,
                            const LayerCache& cache) {
  Run(queue, &OpSeconds::rest,
      [&] { real().Append(queue, step, inputs, cache); });
}

void OpTimesBackend::Summarize(Queue& queue, const LayerStep& step,
                               const SummarizeArgs& args,
                               const LayerCache& cache) {
  Run(queue, &OpSeconds::choices,
      [&] { real().Summarize(queue, step, args, cache); });
}

void OpTimesBackend::ClusterKeys(Queue& queue, const LayerStep& step,
                                 const ClusterKeysArgs& args,
                                 const LayerCache& cache) {
  Run(queue, &OpSeconds::choices,
      [&] { real().ClusterKeys(queue, step, args, cache); });
}

void OpTimesBackend::Select(Queue& queue, const LayerStep& step,
                            const SelectArgs& args, const LayerCache& cache) {
  Run(queue, &OpSeconds::choices,
      [&] { real().Select(queue, step, args, cache); });
}

void OpTimesBackend::Fetch(Queue& queue, const LayerStep& step,
                           const FetchArgs& args, const LayerCache& cache) {
  Run(queue, &OpSeconds::attention,
      [&] { real().Fetch(queue, step, args, cache); });
}

void OpTimesBackend::Attend(Queue& queue, const LayerStep& step,
                            const AttendArgs& args, const LayerCache& cache) {
  Run(queue, &OpSeconds::attention,
      [&] { real().Attend(queue, step, args, cache); });
}

void OpTimesBackend::MergeStates(Queue& queue, const LayerStep& step,
                                 const MergeStatesArgs& args) {
  Run(queue, &OpSeconds::attention,
      [&] { real().MergeStates(queue, step, args); });
}

void OpTimesBackend::GatherRows(Queue& queue, const GatherRowsArgs& args) {
  Run(queue, &OpSeconds::rest, [&] { real().GatherRows(queue, args); });
}

void OpTimesBackend::Sample(Queue& queue, const SampleArgs& args) {
  Run(queue, &OpSeconds::rest, [&] { real().Sample(queue, args); });
}

}  // namespace winnow
