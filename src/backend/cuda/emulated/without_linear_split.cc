// Products without Hopper's tensor cores: EnqueueLinearRows has them.
#include "backend/cuda/linear/linear.h"
#include "base/check.h"

namespace winnow {

bool LinearSplitTakes(const LinearArgs&, const LinearPart&) { return false; }
bool LinearSplitGates(const LinearArgs&) { return false; }

void EnqueueLinearSplit(CudaQueue&, const LinearArgs&, const LinearPart&) {
  CHECK(false, "wgmma is not emulated");
}
void EnqueueLinearSplitGated(CudaQueue&, const LinearArgs&) {
  CHECK(false, "wgmma is not emulated");
}

}  // namespace winnow
