#include "bench/roofs/device_roofs.h"

#include <algorithm>

#include "bench/roofs/roof.h"

namespace winnow {
namespace {

constexpr int kDevicePasses = 3;

double SumOf(const std::vector<LaunchTime>& times) {
  double seconds = 0;
  for (const LaunchTime& time : times) seconds += time.seconds;
  return seconds;
}

}  // namespace

Result<double> EnqueuedSeconds(Backend& backend, Queue& queue,
                               const std::function<void()>& enqueue) {
  ASSIGN_OR_RETURN(const std::vector<LaunchTime> times,
                   backend.Profile(queue, enqueue));
  return SumOf(times);
}

Result<double> RecordedSeconds(Backend& backend, Queue& queue,
                               std::string_view name,
                               const std::function<void()>& enqueue) {
  return EnqueuedSeconds(backend, queue, [&] {
    backend.Replay(queue, std::as_bytes(std::span(name)), enqueue);
  });
}

Result<EmptyLaunchSeconds> MeasureEmptyLaunch(Backend& backend) {
  constexpr int kLaunches = 64;
  BenchMemory memory(backend);
  GatherRowsArgs args;
  ASSIGN_OR_RETURN(args.x, memory.Take(Dtype::kFloat32, {1, 4}));
  const std::vector<int32_t> first = {0};
  ASSIGN_OR_RETURN(args.indices, memory.TakeIntegers(first));
  ASSIGN_OR_RETURN(args.out, memory.Take(Dtype::kFloat32, {1, 4}));
  const auto enqueue = [&] {
    for (int i = 0; i < kLaunches; ++i) {
      backend.GatherRows(memory.queue(), args);
    }
  };
  // Memory that another call took may have been recorded under another name.
  const std::string name = fmt::format(
      "nothing {} {} {}", static_cast<void*>(args.x.data),
      static_cast<void*>(args.indices.data), static_cast<void*>(args.out.data));
  std::vector<double> alone, recorded;
  for (int round = 0; round < kDevicePasses; ++round) {
    ASSIGN_OR_RETURN(const std::vector<LaunchTime> times,
                     backend.Profile(memory.queue(), enqueue));
    for (const LaunchTime& time : times) alone.push_back(time.seconds);
    ASSIGN_OR_RETURN(const double all,
                     RecordedSeconds(backend, memory.queue(), name, enqueue));
    recorded.push_back(all / kLaunches);
  }
  return EmptyLaunchSeconds{.with_event = Median(std::move(alone)),
                            .recorded = Median(std::move(recorded))};
}

Result<std::unique_ptr<DeviceRoofs>> DeviceRoofs::Create(Backend& backend,
                                                         const Model& model,
                                                         const Sizes& sizes) {
  std::unique_ptr<DeviceRoofs> roofs(new DeviceRoofs(backend));
  ASSIGN_OR_RETURN(
      roofs->from_,
      roofs->memory_.TakeRandom(Dtype::kFloat32, {sizes.copied_bytes / 4}));
  ASSIGN_OR_RETURN(roofs->to_, roofs->memory_.Take(Dtype::kFloat32,
                                                   {sizes.copied_bytes / 4}));
  ASSIGN_OR_RETURN(roofs->products_, BenchLayerProducts::Create(
                                         backend, model, sizes.product_rows));
  // To warm up.
  RETURN_IF_ERROR(roofs->MeasureCopy());
  RETURN_IF_ERROR(roofs->MeasureProducts());
  return roofs;
}

Status DeviceRoofs::MeasureCopy() {
  double best = 0;
  for (int pass = 0; pass < kDevicePasses; ++pass) {
    ASSIGN_OR_RETURN(const double seconds,
                     EnqueuedSeconds(backend_, memory_.queue(), [&] {
                       backend_.Copy(memory_.queue(), from_, to_);
                     }));
    best = std::max(
        best, 2 * static_cast<double>(from_.num_elements()) * 4 / seconds);
  }
  bytes_per_second_ = best;
  return Ok{};
}

Status DeviceRoofs::MeasureProducts() {
  const double flops = products_->flops(BenchLayerProducts::Product::kGateUp);
  double best = 0;
  for (int pass = 0; pass < kDevicePasses; ++pass) {
    ASSIGN_OR_RETURN(const double seconds,
                     EnqueuedSeconds(backend_, products_->queue(),
                                     [&] { products_->GateUpAlone(0); }));
    best = std::max(best, flops / seconds);
  }
  flops_per_second_ = best;
  return Ok{};
}

}  // namespace winnow
