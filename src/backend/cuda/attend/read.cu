#include "backend/cuda/attend/read.h"
#include "backend/cuda/attend/read_estimates.h"
#include "backend/cuda/attend/read_prompt.h"
#include "backend/cuda/attend/read_rows.h"
#include "backend/cuda/attend/read_units.h"
#include "backend/preconditions.h"

namespace winnow {

void EnqueueRead(CudaQueue& queue, const LayerStep& step, const ReadArgs& args,
                 const LayerCache& cache) {
  if (step.num_rows == 0) return;
  CheckRead(step, args, cache);
  if (args.sources[0].kind == ReadSource::Kind::kEstimates) {
    if (step.has_generated_rows) {
      EnqueueReadEstimates(queue, step, args, cache);
    }
    return;
  }
  RowKinds left = {.prompt = step.has_prompt_rows,
                   .generated = step.has_generated_rows};
  if (left.prompt && ReadPromptTakes(args, cache)) {
    EnqueueReadPrompt(queue, step, args, cache);
    left.prompt = false;
  }
  if (left.generated && ReadUnitsTakes(args, cache)) {
    EnqueueReadUnits(queue, step, args, cache);
    left.generated = false;
  }
  if (!left.prompt && !left.generated) return;
  EnqueueReadRows(queue, step, args, cache, left);
}

}  // namespace winnow
