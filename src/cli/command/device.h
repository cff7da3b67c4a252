// The device that a command runs on.
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
  int threads = 0;              // of the CPU; 0: as many as there are
  bool quiet = false;
  // Of a GPU's memory, what may be taken; none: nearly all that is free.
  std::optional<double> memory_utilization = {};
};

// Fails with kInvalidArgument where the name is no device's; looks for none.
Status CheckDeviceName(const std::string& device);

using GpuStart =
    std::function<Result<std::unique_ptr<Backend>>(const CudaOptions&)>;

// Starts the device. `auto` is the first GPU, else the CPU, also where the GPU
// has not as much free memory as is asked for; where this build has CUDA and
// the machine a driver, standard error then says why not the GPU.
// Fails with kInvalidArgument where the name is no device's, with kUnsupported
// or kNotFound where the device is not there, with kResourceExhausted where one
// that was named has too little memory. `start_gpu`: another one, for tests.
Result<std::unique_ptr<Backend>> StartDevice(
    const DeviceChoice& choice, const GpuStart& start_gpu = StartCudaBackend);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_DEVICE_H_
