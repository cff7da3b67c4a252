#include "bench/bench_promptless.h"

#include "bench/roofs/roof.h"

namespace winnow {

Result<std::unique_ptr<PromptlessBackend>> PromptlessBackend::Create(
    std::unique_ptr<Backend> real, const Model& model, int max_rows) {
  std::unique_ptr<PromptlessBackend> backend(
      new PromptlessBackend(std::move(real)));
  const ModelConfig& config = model.config();
  for (View* const view : {&backend->k_, &backend->v_}) {
    ASSIGN_OR_RETURN(*view,
                     backend->memory_.TakeRandom(
                         model.dtypes().compute,
                         {max_rows, config.num_kv_heads, config.head_dim}));
  }
  return backend;
}

Result<std::optional<StepTimes>> PromptlessBackend::TakeTimes() {
  if (!measured_) return std::optional<StepTimes>();
  const Result<StepTimes> measured = std::move(*measured_);
  measured_.reset();
  if (!measured.ok()) return measured.error();
  return std::optional<StepTimes>(*measured);
}

Result<StepTimes> PromptlessBackend::Measure(
    Queue& queue, std::span<const std::byte> key,
    const std::function<void()>& enqueue) {
  real().Replay(queue, key, enqueue);  // It may be new.
  std::vector<double> seconds;
  for (int round = 0; round < rounds_; ++round) {
    double sum = 0;
    ASSIGN_OR_RETURN(
        const std::vector<LaunchTime> times,
        real().Profile(queue, [&] { real().Replay(queue, key, enqueue); }));
    for (const LaunchTime& time : times) sum += time.seconds;
    seconds.push_back(sum);
  }
  StepTimes times;
  times.recorded_seconds = Median(std::move(seconds));
  ASSIGN_OR_RETURN(times.launches, real().Profile(queue, enqueue));
  // Once more: the first time may have loaded what it runs.
  ASSIGN_OR_RETURN(times.launches, real().Profile(queue, enqueue));
  return times;
}

void PromptlessBackend::Replay(Queue& queue, std::span<const std::byte> key,
                               const std::function<void()>& enqueue) {
  // What leaves ops out must not be what is recorded.
  if (leaves_out_) return enqueue();
  if (rounds_ > 0) {
    measured_ = Measure(queue, key, enqueue);
    rounds_ = 0;
  }
  real().Replay(queue, key, enqueue);
}

void PromptlessBackend::Embed(Queue& queue, const EmbedArgs& args) {
  if (!leaves_out_) real().Embed(queue, args);
}

void PromptlessBackend::RmsNorm(Queue& queue, const RmsNormArgs& args) {
  if (!leaves_out_) real().RmsNorm(queue, args);
}

// Logits are made all the same: a token must come of them.
void PromptlessBackend::Linear(Queue& queue, const LinearArgs& args) {
  const bool are_logits = args.residual.empty() &&
                          args.parts[0].out.dtype == Dtype::kFloat32 &&
                          args.x.dtype != Dtype::kFloat32;
  if (!leaves_out_ || are_logits) real().Linear(queue, args);
}

void PromptlessBackend::GatedAct(Queue& queue, const GatedActArgs& args) {
  if (!leaves_out_) real().GatedAct(queue, args);
}

void PromptlessBackend::Append(Queue& queue, const LayerStep& step,
                               const TokenInputs& inputs,
                               const LayerCache& cache) {
  TokenInputs random = inputs;
  if (leaves_out_) {
    random.k = k_.Slice(0, step.num_rows);
    random.v = v_.Slice(0, step.num_rows);
  }
  real().Append(queue, step, random, cache);
}

void PromptlessBackend::Select(Queue& queue, const LayerStep& step,
                               const SelectArgs& args,
                               const LayerCache& cache) {
  if (!leaves_out_) real().Select(queue, step, args, cache);
}

void PromptlessBackend::Attend(Queue& queue, const LayerStep& step,
                               const AttendArgs& args,
                               const LayerCache& cache) {
  if (!leaves_out_) real().Attend(queue, step, args, cache);
}

void PromptlessBackend::MergeStates(Queue& queue, const LayerStep& step,
                                    const MergeStatesArgs& args) {
  if (!leaves_out_) real().MergeStates(queue, step, args);
}

}  // namespace winnow
