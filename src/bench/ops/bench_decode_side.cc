#include "bench/ops/bench_decode_side.h"

#include "bench/roofs/roof.h"

namespace winnow {

void AttentionTimer::Summarize(Queue& queue, const LayerStep& step,
                               const SummarizeArgs& args,
                               const LayerCache& cache) {
  seconds_ += SecondsOf([&] { real().Summarize(queue, step, args, cache); });
}

void AttentionTimer::ClusterKeys(Queue& queue, const LayerStep& step,
                                 const ClusterKeysArgs& args,
                                 const LayerCache& cache) {
  seconds_ += SecondsOf([&] { real().ClusterKeys(queue, step, args, cache); });
}

void AttentionTimer::Select(Queue& queue, const LayerStep& step,
                            const SelectArgs& args, const LayerCache& cache) {
  seconds_ += SecondsOf([&] { real().Select(queue, step, args, cache); });
}

void AttentionTimer::Fetch(Queue& queue, const LayerStep& step,
                           const FetchArgs& args, const LayerCache& cache) {
  seconds_ += SecondsOf([&] { real().Fetch(queue, step, args, cache); });
}

void AttentionTimer::Attend(Queue& queue, const LayerStep& step,
                            const AttendArgs& args, const LayerCache& cache) {
  seconds_ += SecondsOf([&] { real().Attend(queue, step, args, cache); });
}

void AttentionTimer::MergeStates(Queue& queue, const LayerStep& step,
                                 const MergeStatesArgs& args) {
  seconds_ += SecondsOf([&] { real().MergeStates(queue, step, args); });
}

Result<std::unique_ptr<DecodeSide>> DecodeSide::Create(
    Backend& backend, AttentionTimer& timer, const Model& model,
    const EngineOptions& options, const Request& request, int batch) {
  std::unique_ptr<DecodeSide> side(new DecodeSide(timer));
  ASSIGN_OR_RETURN(side->engine_, Engine::Create(backend, model, options));
  side->requests_.emplace(*side->engine_);
  RETURN_IF_ERROR(side->requests_->Add(request, batch));
  RETURN_IF_ERROR(side->requests_->StepUntilAllGenerate());
  return side;
}

Status DecodeSide::Step(int num_steps) {
  for (int i = 0; i < num_steps; ++i) RETURN_IF_ERROR(engine_->Step());
  return Ok{};
}

Status DecodeSide::TakeTurn(int num_steps) {
  Status status = Ok{};
  timer_.TakeSeconds();
  const double seconds = SecondsOf([&] { status = Step(num_steps); });
  RETURN_IF_ERROR(status);
  turn_ = {.step_seconds = seconds / num_steps,
           .attention_seconds = timer_.TakeSeconds() / num_steps};
  return Ok{};
}

}  // namespace winnow
