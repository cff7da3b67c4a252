#include "backend/cpu/select/cluster_keys.h"

#include "backend/cpu/step_rows.h"

namespace winnow {

void SegmentIndex::ClusterKeys(const LayerStep& step,
                               const ClusterKeysArgs& args,
                               const LayerCache& cache) {
  const StepRows rows(step);
  std::vector<ClusterTask> tasks;
  for (int request = 0; request < step.num_requests; ++request) {
    const int index = rows.selector(request);
    if (index < 0) continue;
    const LayerSelector& selector = args.selectors[static_cast<size_t>(index)];
    if (selector.program == nullptr ||
        selector.program->rows.kind != SummaryRows::Kind::kClusters) {
      continue;
    }
    CheckProgram(*selector.program);
    const int64_t tokens = selector.program->rows.tokens;
    const int64_t end =
        (int64_t{rows.first_position(request)} + rows.num_tokens(request)) /
        tokens;
    for (int64_t segment = args.first_token.As<int32_t>()[request] / tokens;
         segment < end; ++segment) {
      for (int head = 0; head < cache.num_kv_heads; ++head) {
        tasks.push_back({.program = *selector.program,
                         .table = selector.summaries,
                         .cache = cache,
                         .request = request,
                         .head = head,
                         .segment = segment});
      }
    }
  }
  pool_.ParallelFor(std::ssize(tasks), [&](int64_t item, int worker) {
    clusters_[static_cast<size_t>(worker)].Make(
        tasks[static_cast<size_t>(item)]);
  });
}

}  // namespace winnow
