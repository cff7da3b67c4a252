#include "backend/cuda/read.h"
#include "backend/cuda/read_prompt.h"
#include "backend/cuda/read_rows.h"
#include "backend/cuda/read_units.h"

namespace winnow {
namespace {

void CheckRead(const LayerStep& step, const ReadArgs& args,
               const LayerCache& cache) {
  const SliceFormat& format = cache.format;
  CHECK(args.sources.size() == 1, "sources={} limit=1", args.sources.size());
  CHECK(cache.num_kv_heads > 0 && args.q.rank == 3 && args.out.rank == 3,
        "kv_heads={} q {} out {}", cache.num_kv_heads, ToString(args.q),
        ToString(args.out));
  CHECK(args.q.dim(0) == step.num_rows &&
            args.q.dim(1) % cache.num_kv_heads == 0 &&
            args.q.dim(2) == format.k_dim,
        "q {} rows={} kv_heads={} k_dim={}", ToString(args.q), step.num_rows,
        cache.num_kv_heads, format.k_dim);
  CHECK(args.out.dim(0) == step.num_rows && args.out.dim(1) == args.q.dim(1) &&
            args.out.dim(2) == format.v_dim,
        "out {} q {} v_dim={}", ToString(args.out), ToString(args.q),
        format.v_dim);
  CHECK(args.lse.empty() || (args.lse.dtype == Dtype::kFloat32 &&
                             args.lse.dim(0) == step.num_rows &&
                             args.lse.dim(1) == args.q.dim(1)),
        "lse {} q {}", ToString(args.lse), ToString(args.q));
}

}  // namespace

void EnqueueRead(CudaQueue& queue, const LayerStep& step, const ReadArgs& args,
                 const LayerCache& cache) {
  if (step.num_rows == 0) return;
  CheckRead(step, args, cache);
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
