// Prefill rows without Hopper's tensor cores: EnqueueAttendRows has them all.
#include "backend/cuda/attend/attend_prompt.h"
#include "base/check.h"

namespace winnow {

bool AttendPromptTakes(const AttendArgs&, const LayerCache&) { return false; }

void EnqueueAttendPrompt(CudaQueue&, const LayerStep&, const AttendArgs&,
                         const LayerCache&) {
  CHECK(false, "wgmma is not emulated");
}

}  // namespace winnow
