#include "backend/cuda/attend/attend.h"
#include "backend/cuda/attend/attend_estimates.h"
#include "backend/cuda/attend/attend_prompt.h"
#include "backend/cuda/attend/attend_rows.h"
#include "backend/cuda/attend/attend_units.h"
#include "backend/preconditions.h"

namespace winnow {

void EnqueueAttend(CudaQueue& queue, const LayerStep& step,
                   const AttendArgs& args, const LayerCache& cache) {
  if (step.num_rows == 0) return;
  CheckAttend(step, args, cache);
  if (args.sources[0].kind == AttendSource::Kind::kEstimates) {
    if (step.has_decode_rows) {
      EnqueueAttendEstimates(queue, step, args, cache);
    }
    return;
  }
  RowKinds left = {.prompt = step.has_prefill_rows,
                   .generated = step.has_decode_rows};
  if (left.prompt && AttendPromptTakes(args, cache)) {
    EnqueueAttendPrompt(queue, step, args, cache);
    left.prompt = false;
  }
  if (left.generated && AttendUnitsTakes(args, cache)) {
    EnqueueAttendUnits(queue, step, args, cache);
    left.generated = false;
  }
  if (!left.prompt && !left.generated) return;
  EnqueueAttendRows(queue, step, args, cache, left);
}

}  // namespace winnow
