// A bound on the device memory that a process takes, and the sum of what it
// takes it for.
#ifndef WINNOW_BACKEND_MEMORY_LIMIT_H_
#define WINNOW_BACKEND_MEMORY_LIMIT_H_

#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"

namespace winnow {

struct MemoryLimitOptions {
  // Of all the memory that the device has, what may be taken: (0, 1]. None:
  // nearly all that is free.
  std::optional<double> utilization = {};
  int64_t workspace_bytes = 0;  // that the backend has taken already
  int64_t graph_bytes = 0;      // that its driver will take for graphs
};

// `backend`, which takes no more memory of its device than that; its attributes
// say what is left of it as available_bytes. An allocation beyond it fails with
// kResourceExhausted and shows the sum of what has been taken so far, and so
// does one that the device refuses. Fails where the device has not as much free
// as `utilization` asks for. (The driver's own, for code and streams, is in
// nobody's sum.)
Result<std::unique_ptr<Backend>> LimitMemory(std::unique_ptr<Backend> backend,
                                             const MemoryLimitOptions& options);

}  // namespace winnow

#endif  // WINNOW_BACKEND_MEMORY_LIMIT_H_
