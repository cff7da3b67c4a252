#include "cli/command/device.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <string_view>

#include "backend/cpu/cpu_backend.h"
#include "backend/memory_limit.h"

namespace winnow {
namespace {

// N of cuda:N; cuda is cuda:0. None where it is no GPU's name.
std::optional<int> CudaIndex(std::string_view device) {
  constexpr std::string_view kCuda = "cuda";
  if (!device.starts_with(kCuda)) return {};
  device.remove_prefix(kCuda.size());
  if (device.empty()) return 0;
  if (device.front() != ':') return {};
  device.remove_prefix(1);
  int index = 0;
  const auto [end, error] =
      std::from_chars(device.data(), device.data() + device.size(), index);
  const bool whole = error == std::errc() &&
                     end == device.data() + device.size() && index >= 0;
  return whole ? std::optional(index) : std::nullopt;
}

// The GPU with a bound on what is taken of its memory.
Result<std::unique_ptr<Backend>> StartLimitedGpu(int index,
                                                 std::optional<double> share,
                                                 const GpuStart& start_gpu) {
  CudaOptions options;
  options.device = index;
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, start_gpu(options));
  return LimitMemory(std::move(backend),
                     {.utilization = share,
                      .workspace_bytes = options.start_bytes(),
                      .graph_bytes = options.graph_bytes});
}

}  // namespace

Status CheckDeviceName(const std::string& device) {
  if (device == "auto" || device == "cpu" || CudaIndex(device)) return Ok{};
  return MakeError(ErrorCode::kInvalidArgument,
                   "--device must be auto, cpu or cuda[:N], is \"{}\"", device);
}

Result<std::unique_ptr<Backend>> StartDevice(const DeviceChoice& choice,
                                             const GpuStart& start_gpu) {
  RETURN_IF_ERROR(CheckDeviceName(choice.device));
  const bool automatic = choice.device == "auto";
  const std::optional<int> index =
      automatic ? std::optional(0) : CudaIndex(choice.device);
  if (index) {
    Result<std::unique_ptr<Backend>> backend =
        StartLimitedGpu(*index, choice.memory_utilization, start_gpu);
    if (backend.ok() || !automatic) return backend;
    // A build without CUDA, or a machine without a driver, has nothing to
    // explain.
    if (backend.error().code != ErrorCode::kNotFound && !choice.quiet) {
      fmt::print(stderr, "winnow: using the CPU: {}\n",
                 backend.error().message);
    }
  }
  return StartCpuBackend({.num_threads = choice.threads});
}

}  // namespace winnow
