// StartDevice: starts the device that a command runs on.
#ifndef WINNOW_CLI_COMMAND_DEVICE_H_
#define WINNOW_CLI_COMMAND_DEVICE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "backend/cuda/cuda_backend.h"
#include "base/result.h"

namespace winnow {

struct DeviceChoice {
  std::string device = "auto";  // auto, cpu, cuda or cuda:N
  int threads = 0;              // of the CPU; 0: all
  bool quiet = false;
  // The share of a GPU's memory that may be used; none: nearly all that is
  // free.
  std::optional<double> memory_utilization = {};
};

// Fails with kInvalidArgument if the name is invalid. Does not look for the
// device.
Status CheckDeviceName(const std::string& device);

using GpuStart =
    std::function<Result<std::unique_ptr<Backend>>(const CudaOptions&)>;

// Starts the device. `auto` is the first GPU, or the CPU if the GPU has too
// little free memory or is absent. If the build has CUDA and the machine a
// driver, standard error then says why the GPU is not used. Fails with
// kInvalidArgument if the name is invalid. Fails with kUnsupported or kNotFound
// if the device does not exist. Fails with kResourceExhausted if a named device
// has too little memory. `start_gpu` lets tests replace the GPU.
Result<std::unique_ptr<Backend>> StartDevice(
    const DeviceChoice& choice, const GpuStart& start_gpu = StartCudaBackend);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_DEVICE_H_
