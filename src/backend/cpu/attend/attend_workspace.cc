#include "backend/cpu/attend/attend_workspace.h"

#include "backend/cpu/grown_buffer.h"

namespace winnow {

AttendWorkspace::AttendWorkspace(int num_workers)
    : items_(kMaxItems), merges_(kMaxItems) {
  Grow(static_cast<size_t>(num_workers) * kScratchBytes, scratch_);
  Grow(static_cast<size_t>(num_workers) * kPartialBytes, partials_);
}

}  // namespace winnow
