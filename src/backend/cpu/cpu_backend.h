// The CPU as a device.
#ifndef WINNOW_BACKEND_CPU_CPU_BACKEND_H_
#define WINNOW_BACKEND_CPU_CPU_BACKEND_H_

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/isa/cpu_kernels.h"
#include "base/result.h"

namespace winnow {

struct CpuOptions {
  int num_threads = 0;  // 0: as many as the process may run on
  CpuKernels kernels = CpuKernels::kBest;
};

// A backend whose device memory is host memory. Its queues run each op
// before the call returns, so an Event has passed when it is recorded; one
// thread at a time may call it, whichever queue it names.
// Fails where the system does not start so many threads; the error names the
// field, the limit and the value.
// REQUIRES: options.kernels is kBest or among AvailableCpuKernels().
Result<std::unique_ptr<Backend>> StartCpuBackend(const CpuOptions& options);

// The same where that is no question, as in tests.
// REQUIRES: the system starts the threads.
std::unique_ptr<Backend> MakeCpuBackend(const CpuOptions& options);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_CPU_BACKEND_H_
