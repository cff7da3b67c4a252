#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/select/cluster_choice.cuh"
#include "backend/cuda/device/select/fixed_list.cuh"
#include "backend/cuda/device/select/threshold_list.cuh"
#include "backend/cuda/runtime/step_views.h"
#include "backend/cuda/select/select_launch.h"
#include "backend/cuda/select/select_masks.h"
#include "backend/cuda/select/select_views.h"

namespace winnow {
namespace {

struct MaskChoiceTask {
  device::StepRows rows;
  device::Lists lists;
  device::ScoreMemory memory;
  device::Selector selector;
  int selector_index;
  float* read_shares;  // [rows of the step], or null
  int32_t* tickets;    // [wave, 2]: tokens of a row's lists, and lists done
  int first_row;       // of the wave
  int num_q_heads;
  int num_kv_heads;
  int num_choices;  // lists of a row that are chosen
  int num_copies;   // a choice for the whole layer is every KV head's
  int shared_keys;  // where keys and masks are in shared memory
};

// Tokens of a list that an earlier layer has kept, by a block.
__device__ int NumKeptTokens(const uint2* picks, int num_picks,
                             device::CutScratch& scratch) {
  int count = 0;
  for (int i = threadIdx.x; i < num_picks; i += device::kChooseThreads) {
    count += __popc(picks[i].y);
  }
  count = __reduce_add_sync(device::kWarpMask, count);
  int total = 0;
  device::SumOfWarpsBefore(count, scratch.of_warps, total);
  return total;
}

// Adds the row's share once its last list is done, by one thread of each:
// integers are added in any order, the share once.
__device__ void AddShare(const MaskChoiceTask& task, int wave_row, int context,
                         int num_tokens) {
  if (task.read_shares == nullptr) return;
  int32_t* ticket = task.tickets + 2 * int64_t{wave_row};
  atomicAdd(&ticket[0], num_tokens);
  __threadfence();
  if (atomicAdd(&ticket[1], 1) + 1 != task.num_choices) return;
  __threadfence();
  const int32_t all = atomicAdd(&ticket[0], 0);
  ticket[0] = ticket[1] = 0;
  // Nobody else adds: as an atomic it need not be waited for.
  atomicAdd(&task.read_shares[task.first_row + wave_row],
            static_cast<float>(
                static_cast<double>(all) /
                static_cast<double>(int64_t{task.num_choices} * context)));
}

__device__ device::MaskCounts ChooseList(const MaskChoiceTask& task,
                                         const device::MaskPlace& place,
                                         const float* scores,
                                         const device::ListMemory& memory) {
  const device::Selector& selector = task.selector;
  if (selector.HasClusters()) {
    const device::ClusterBudget budget(selector, place.context);
    device::ClusterChoice choice(selector, budget, place, memory.keys,
                                 memory.masks, memory.scratch);
    return choice.Choose(scores);
  }
  if (selector.by_threshold) {
    const device::RowBudget budget(selector, place.context, 0);
    return device::ChooseAbove(selector, budget, place, scores, memory);
  }
  const device::RowBudget budget(selector, place.context,
                                 selector.fixed.End(task.rows, place.request));
  device::FixedList list(selector, budget, place, memory.keys, memory.masks,
                         memory.scratch);
  return list.Choose(scores);
}

// Gives a list's picks to the other lists of a choice for the whole layer.
__device__ void CopyPicks(const MaskChoiceTask& task, int row, int list,
                          int num_picks) {
  if (task.num_copies == 1) return;
  __syncthreads();
  const uint2* from = task.lists.List(row, list);
  for (int copy = 1; copy < task.num_copies; ++copy) {
    uint2* to = task.lists.List(row, list + copy);
    for (int i = threadIdx.x; i < num_picks; i += device::kChooseThreads) {
      to[i] = from[i];
    }
  }
}

// Says what is read of a list and its copies. One thread calls it.
__device__ void FinishList(const MaskChoiceTask& task, int row, int list,
                           device::MaskCounts counts) {
  const device::Selector& selector = task.selector;
  for (int copy = list; copy < list + task.num_copies; ++copy) {
    // What is estimated stays with lists that are kept.
    if (!selector.reuses_lists || !selector.HasClusters()) {
      task.lists.SetNumEstimates(row, copy, counts.num_estimates);
    }
    if (selector.keeps_lists) {
      task.lists.NumKept(row, copy) = counts.num_picks;
    }
    task.lists.NumPicks(row, copy) =
        selector.keeps_lists ? device::kEveryPage : counts.num_picks;
  }
  if (list == 0) {
    task.lists.num_lists[row - task.lists.first_row] =
        task.num_choices * task.num_copies;
  }
}

// A block has a (row, list): makes integer keys of the scores, finds where the
// budget ends among them, of clusters by their tokens where these are cut, and
// where the estimates end, marks what is read in the masks of pages, and writes
// those as picks. Bytes: 4 a score, 12 a cluster and 2 a token of it that is
// read, 4 a page, the lists. Grid [lists, rows of the wave].
template <bool kShared>
__global__ void __launch_bounds__(device::kChooseThreads, 2)
    ChooseMasksKernel(const __grid_constant__ MaskChoiceTask task) {
  extern __shared__ uint32_t shared[];  // keys, then masks, where kShared
  __shared__ device::CutScratch scratch;
  const int wave_row = static_cast<int>(blockIdx.y);
  const int row = task.first_row + wave_row;
  const int list = static_cast<int>(blockIdx.x);
  const device::Selector& selector = task.selector;
  const int request = task.rows.Request(row);
  const int context = task.rows.Position(row) + 1;
  device::BeginAfterPrior();
  if (task.rows.selector[request] != task.selector_index ||
      selector.ReadsAll(task.rows, row)) {
    return;
  }
  device::MaskCounts counts = {};
  if (selector.reuses_lists) {
    counts.num_picks = task.lists.NumKept(row, list);
    counts.num_tokens =
        NumKeptTokens(task.lists.List(row, list), counts.num_picks, scratch);
  } else {
    const int lists_a_head = max(task.num_choices / task.num_kv_heads, 1);
    const device::MaskPlace place = {
        .request = request,
        .kv_head = list / lists_a_head,
        .list = list % lists_a_head,
        .context = context,
        .picks = task.lists.List(row, list),
        .capacity = task.lists.capacity,
        .estimates = task.lists.Estimates(row, list),
        .estimates_capacity = task.lists.estimates_capacity};
    const int num_planes =
        selector.NumPlanes(task.num_q_heads, task.num_kv_heads);
    const float* scores =
        task.memory.Plane(wave_row, list * (num_planes / task.num_choices));
    if constexpr (kShared) {
      counts = ChooseList(task, place, scores,
                          {shared, shared + task.shared_keys, scratch});
    } else {
      counts = ChooseList(task, place, scores,
                          {task.memory.Keys(wave_row, list),
                           task.memory.Masks(wave_row, list), scratch});
    }
  }
  if (!selector.reuses_lists) CopyPicks(task, row, list, counts.num_picks);
  if (threadIdx.x != 0) return;
  FinishList(task, row, list, counts);
  AddShare(task, wave_row, context,
           selector.keeps_lists ? context : counts.num_tokens);
}

}  // namespace

bool ChoosesByMasks(const SelectProgram& program) {
  return program.rows.kind == SummaryRows::Kind::kClusters ||
         program.fixed.kind != FixedChoice::Kind::kNone ||
         program.rule == Rule::kThreshold;
}

void EnqueueMaskChoice(CudaQueue& queue, const LayerStep& step,
                       const SelectArgs& args, const LayerCache& cache,
                       const SelectWave& wave, size_t selector) {
  const SelectProgram& program = *args.selectors[selector].program;
  const CudaDevice& device = queue.device();
  MaskChoiceTask task = {};
  task.rows = DeviceRows(step);
  task.lists = DeviceChosenLists(args.picks);
  task.memory = wave.memory;
  task.selector = DeviceSelector(args.selectors[selector], cache);
  task.selector_index = static_cast<int>(selector);
  if (!args.read_shares.empty()) {
    task.read_shares = args.read_shares.As<float>();
  }
  CHECK(2 * int64_t{wave.num_rows} <= device.num_tickets, "rows={} tickets={}",
        wave.num_rows, device.num_tickets);
  task.tickets = device.tickets;
  task.first_row = wave.first_row;
  task.num_q_heads = static_cast<int>(args.q.dim(1));
  task.num_kv_heads = cache.num_kv_heads;
  task.num_choices = NumChoices(program, task.num_q_heads, cache);
  task.num_copies = program.scope == Scope::kLayer ? cache.num_kv_heads : 1;
  CHECK(program.estimate.value == 0 || program.rule == Rule::kTokens ||
            !args.picks.estimates.empty(),
        "estimates {}", ToString(args.picks.estimates));
  const bool chooses = args.selectors[selector].reuse_layer < 0;
  const int64_t num_pages = chooses ? cache.max_pages : 0;
  const bool has_keys = program.budget.value > 0 ||
                        program.estimate.value > 0 ||
                        program.rule == Rule::kThreshold;
  if (has_keys) {
    task.shared_keys =
        static_cast<int>(num_pages * kPageTokens / program.block_tokens);
  }
  const dim3 grid(static_cast<unsigned>(task.num_choices),
                  static_cast<unsigned>(wave.num_rows));
  LaunchChoosing<MaskChoiceTask>(
      queue,
      {"Select: masks", ChooseMasksKernel<true>, ChooseMasksKernel<false>},
      grid, task.shared_keys + num_pages, task);
}

}  // namespace winnow
