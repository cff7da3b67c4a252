#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/select/cluster_choice.cuh"
#include "backend/cuda/device/select/select_partitions.cuh"
#include "backend/cuda/runtime/step_views.h"
#include "backend/cuda/select/select_launch.h"
#include "backend/cuda/select/select_next.h"
#include "backend/cuda/select/select_views.h"

namespace winnow {
namespace {

struct NextTask {
  device::StepRows rows;
  device::Lists lists;  // that are made
  device::Lists next;
  device::ScoreMemory memory;
  device::Selector selector;
  device::Selector more;  // with the larger budget
  int selector_index;
  const int32_t* num_segments;  // [requests]: 0: all pages are whole
  int first_row;                // of the wave
  int num_q_heads;
  int num_kv_heads;
  int num_choices;  // lists of a row that are chosen
  int num_copies;   // a choice for the whole layer is every KV head's
  int shared_keys;  // where keys and masks are in shared memory
};

struct NextMemory {
  uint32_t* keys;   // u32 [free partitions, or clusters]
  uint32_t* masks;  // u32 [pages]
  device::CutScratch& scratch;
};

// Leaves in the masks what the larger budget reads, as far as scores decide.
__device__ void MarkMore(const NextTask& task, const device::MaskPlace& place,
                         const float* scores, const NextMemory& memory) {
  const device::Selector& more = task.more;
  if (more.HasClusters()) {
    const device::ClusterBudget budget(more, place.context);
    device::ClusterChoice choice(more, budget, place, memory.keys, memory.masks,
                                 memory.scratch);
    return choice.MarkChosen(scores);
  }
  const int fixed_end = more.fixed.End(task.rows, place.request);
  const device::RowBudget budget(more, place.context, fixed_end);
  const int block = more.block_tokens;
  const bool all = budget.count == budget.num_open();
  const int num_pages =
      (place.context + device::kTokensAPage - 1) / device::kTokensAPage;
  for (int page = threadIdx.x; page < num_pages;
       page += device::kChooseThreads) {
    memory.masks[page] =
        all ? device::TokensOfPage(page, budget.first_free * block,
                                   budget.end_free * block)
            : 0;
  }
  __syncthreads();
  if (all) return;
  const int scored = fixed_end > 0 ? budget.end_free * block : place.context;
  device::WriteKeys(more, budget, scores,
                    more.summaries.levels[0].NumVisible(scored), memory.keys);
  const int num_free = budget.end_free - budget.first_free;
  if (fixed_end > 0) {
    for (int i = threadIdx.x; i < num_free; i += device::kChooseThreads) {
      const int token = (budget.first_free + i) * block;
      if (more.fixed.Has(place.request, place.kv_head, place.list, token)) {
        memory.keys[i] = ~0u;
      }
    }
    __syncthreads();
  }
  const device::Cut cut =
      device::FindCut(memory.keys, num_free, budget.count, memory.scratch);
  device::MarkPartitions({memory.keys, num_free, budget.first_free, block}, cut,
                         memory.masks, memory.scratch.of_warps);
}

// Whether scores decide for the row, by the budget that it has.
__device__ bool Decides(const NextTask& task, int row) {
  const device::Selector& selector = task.selector;
  if (selector.by_threshold) return false;  // It knows no budget.
  if (selector.HasClusters()) {
    const device::ClusterBudget budget(selector, task.rows.Position(row) + 1);
    return budget.NeedsScores() && budget.num_read > 0;
  }
  return device::ScoreNeed(selector, task.rows, row).decides;
}

// A block has a (row, list): marks what the larger budget reads, takes away
// what the list has, and writes the rest as picks.
// Grid [lists, rows of the wave].
template <bool kShared>
__global__ void __launch_bounds__(device::kChooseThreads, 2)
    NextRanksKernel(const __grid_constant__ NextTask task) {
  extern __shared__ uint32_t shared[];  // keys, then masks, where kShared
  __shared__ device::CutScratch scratch;
  const int wave_row = static_cast<int>(blockIdx.y);
  const int row = task.first_row + wave_row;
  const int list = static_cast<int>(blockIdx.x);
  const int request = task.rows.Request(row);
  const device::Selector& selector = task.selector;
  device::BeginAfterPrior();
  const int index =
      task.rows.selector == nullptr ? -1 : task.rows.selector[request];
  // Rows without a selector are the first launch's.
  if (index < 0 ? task.selector_index > 0 : index != task.selector_index) {
    return;
  }
  if (index < 0 || !selector.has_program || selector.ReadsAll(task.rows, row)) {
    if (list != 0 || threadIdx.x != 0) return;
    task.next.num_lists[row - task.next.first_row] = 1;
    task.next.NumPicks(row, 0) = 0;
    return;
  }
  if (list >= task.num_choices) return;
  int count = 0;
  if (!selector.reuses_lists && !task.rows.IsPrompt(row) &&
      task.num_segments[request] > 0 && Decides(task, row)) {
    const int num_lists = task.num_choices * task.num_copies;
    const int lists_a_head = max(num_lists / task.num_kv_heads, 1);
    device::MaskPlace place = {};
    place.request = request;
    place.kv_head = list / lists_a_head;
    place.list = list % lists_a_head;
    place.context = task.rows.Position(row) + 1;
    place.capacity = task.next.capacity;
    const int num_planes =
        selector.NumPlanes(task.num_q_heads, task.num_kv_heads);
    const float* scores =
        task.memory.Plane(wave_row, list * (num_planes / task.num_choices));
    uint32_t* keys;
    uint32_t* masks;
    if constexpr (kShared) {
      keys = shared;
      masks = shared + task.shared_keys;
    } else {
      keys = task.memory.Keys(wave_row, list);
      masks = task.memory.Masks(wave_row, list);
    }
    MarkMore(task, place, scores, {keys, masks, scratch});
    __syncthreads();
    const uint2* picks = task.lists.List(row, list);
    const int num_picks = selector.keeps_lists ? task.lists.NumKept(row, list)
                                               : task.lists.NumPicks(row, list);
    for (int i = threadIdx.x; i < num_picks; i += device::kChooseThreads) {
      masks[picks[i].x] &= ~picks[i].y;
    }
    __syncthreads();
    for (int copy = 0; copy < task.num_copies; ++copy) {
      place.picks = task.next.List(row, list + copy);
      count = device::WritePicks(masks, place, scratch.of_warps).num_picks;
    }
  }
  if (threadIdx.x != 0) return;
  for (int copy = 0; copy < task.num_copies; ++copy) {
    task.next.NumPicks(row, list + copy) = count;
  }
  if (list == 0) {
    task.next.num_lists[row - task.next.first_row] =
        task.num_choices * task.num_copies;
  }
}

void Launch(CudaQueue& queue, NextTask& task, int num_rows, int num_pages) {
  const dim3 grid(static_cast<unsigned>(task.num_choices),
                  static_cast<unsigned>(num_rows));
  task.shared_keys = task.memory.keys_capacity;
  LaunchChoosing<NextTask>(
      queue,
      {"Select: next ranks", NextRanksKernel<true>, NextRanksKernel<false>},
      grid, task.shared_keys + num_pages, task);
}

}  // namespace

void EnqueueNextRanks(CudaQueue& queue, const LayerStep& step,
                      const SelectArgs& args, const LayerCache& cache,
                      const SelectWave& wave) {
  NextTask task = {};
  task.rows = DeviceRows(step);
  task.lists = DeviceChosenLists(args.picks);
  task.next = DeviceChosenLists(args.next.lists);
  task.memory = wave.memory;
  task.num_segments = args.next.slots->num_segments.As<int32_t>();
  task.first_row = wave.first_row;
  task.num_q_heads = static_cast<int>(args.q.dim(1));
  task.num_kv_heads = cache.num_kv_heads;
  // One at least, for rows without a selector.
  for (size_t i = 0; i == 0 || i < args.selectors.size(); ++i) {
    task.selector_index = static_cast<int>(i);
    task.selector = task.more = {};
    task.num_choices = task.num_copies = 1;
    LayerSelector selector =
        i < args.selectors.size() ? args.selectors[i] : LayerSelector{};
    SelectProgram more;
    if (selector.program != nullptr) {
      const SelectProgram& program = *selector.program;
      task.selector = DeviceSelector(selector, cache);
      task.num_choices = NumChoices(program, task.num_q_heads, cache);
      if (program.scope == Scope::kLayer) task.num_copies = cache.num_kv_heads;
      more = WithBudgetTimes(program, args.next.budget_times);
      selector.program = &more;
      task.more = DeviceSelector(selector, cache);
    }
    Launch(queue, task, wave.num_rows, wave.memory.pages_capacity);
  }
}

}  // namespace winnow
