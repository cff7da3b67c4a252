// The device that a command runs on.
#ifndef WINNOW_CLI_DEVICE_H_
#define WINNOW_CLI_DEVICE_H_

#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
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

// Starts the device. `auto` is the first GPU, else the CPU; where this build
// has CUDA and the machine a driver, standard error then says why not the GPU.
// Fails with kInvalidArgument where the name is no device's, with kUnsupported
// or kNotFound where the device is not there.
Result<std::unique_ptr<Backend>> StartDevice(const DeviceChoice& choice);

}  // namespace winnow

#endif  // WINNOW_CLI_DEVICE_H_
