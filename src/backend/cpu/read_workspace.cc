#include "backend/cpu/read_workspace.h"

namespace winnow {
namespace {

// A backend without its workspace is of no use, and a start-up without a few
// MiB has worse troubles.
Buffer TakeOrStop(size_t num_bytes) {
  Result<Buffer> buffer =
      Buffer::AllocateHost(num_bytes, "the workspace of attention");
  CHECK(buffer.ok(), "{}", buffer.error().message);
  return std::move(buffer).value();
}

}  // namespace

ReadWorkspace::ReadWorkspace(int num_workers)
    : scratch_(TakeOrStop(static_cast<size_t>(num_workers) * kScratchBytes)),
      partials_(TakeOrStop(static_cast<size_t>(num_workers) * kPartialBytes)),
      items_(kMaxItems),
      merges_(kMaxItems) {}

}  // namespace winnow
