// Prompt rows without Hopper's tensor cores: EnqueueReadRows has them all.
#include "backend/cuda/attend/read_prompt.h"
#include "base/check.h"

namespace winnow {

bool ReadPromptTakes(const ReadArgs&, const LayerCache&) { return false; }

void EnqueueReadPrompt(CudaQueue&, const LayerStep&, const ReadArgs&,
                       const LayerCache&) {
  CHECK(false, "wgmma is not emulated");
}

}  // namespace winnow
