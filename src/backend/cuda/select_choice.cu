#include <algorithm>

#include "backend/cuda/device/select_cut.cuh"
#include "backend/cuda/device/select_list.cuh"
#include "backend/cuda/device/select_partitions.cuh"
#include "backend/cuda/select_choice.h"
#include "backend/cuda/select_views.h"
#include "backend/cuda/step_views.h"

namespace winnow {
namespace {

// Selectors that one launch knows; a step with more takes several.
constexpr int kSelectorsALaunch = 8;
// Planes whose log-sum-exp a block keeps: a layer's q heads.
constexpr int kMaxPlanes = 256;

struct ChoiceTask {
  device::StepRows rows;
  device::Lists lists;
  device::ScoreMemory memory;
  float* read_shares;  // [rows of the step], or null
  float scale;
  int first_row;  // of the wave
  int num_q_heads;
  int num_kv_heads;
  // Of the step's selectors, [first_selector, first_selector + num_selectors).
  int first_selector;
  int num_selectors;
  device::Selector selectors[kSelectorsALaunch];
};

struct ChoiceScratch {
  device::CutScratch cut;
  float lse[kMaxPlanes];
};

// A row that chooses, and which of its lists.
struct ListPlace {
  int row;  // of the step
  int wave_row;
  int request;
  int context;
  int list;
  int num_choices;  // lists that are chosen, and not copied
};

// Whose scores make a list: planes and heads in their order.
__device__ device::ListScores ScoresOf(const ChoiceTask& task,
                                       const device::Selector& selector,
                                       const ListPlace& place,
                                       const float* lse) {
  const int num_planes =
      (selector.SumsGroups() ? task.num_kv_heads : task.num_q_heads) /
      place.num_choices;
  return {.planes = task.memory.Plane(place.wave_row, place.list * num_planes),
          .capacity = task.memory.rows_capacity,
          .num_planes = num_planes,
          .num_heads = task.num_q_heads / place.num_choices,
          .lse = lse,
          .num_rows = selector.summaries.levels[0].NumVisible(place.context),
          .scale = task.scale};
}

// The log-sum-exp of each of the list's heads, a warp a head.
__device__ void NormalizeHeads(const ChoiceTask& task,
                               const device::Selector& selector,
                               const ListPlace& place, int num_heads,
                               float* lse) {
  const device::SummaryLevel& level =
      selector.summaries
          .levels[selector.map == device::HeadMap::kExpMinusLse ? 1 : 0];
  const int num_visible = level.NumVisible(place.context);
  const int num_slots = num_visible == 0 ? 0 : num_visible + level.lead;
  const int num_tiles =
      (num_slots + device::kTileSlots - 1) / device::kTileSlots;
  for (int head = threadIdx.x / 32; head < num_heads;
       head += device::kChooseWarps) {
    const float of_head = device::LogSumExp(
        task.memory.Partials(place.wave_row, place.list * num_heads + head),
        num_tiles);
    if (threadIdx.x % 32 == 0) lse[head] = of_head;
  }
}

// Scores the free partitions and finds where the best of them end.
__device__ device::Cut ChooseBest(const ChoiceTask& task,
                                  const device::Selector& selector,
                                  const ListPlace& place,
                                  const device::RowBudget& budget,
                                  uint32_t* keys, ChoiceScratch& scratch) {
  const device::ListScores scores =
      ScoresOf(task, selector, place, scratch.lse);
  if (selector.map != device::HeadMap::kNone) {
    NormalizeHeads(task, selector, place, scores.num_planes, scratch.lse);
    __syncthreads();
  }
  const int num_free = budget.end_free - budget.first_free;
  for (int i = threadIdx.x; i < num_free; i += device::kChooseThreads) {
    keys[i] =
        device::KeyOf(scores.OfPartition(selector, budget.first_free + i));
  }
  __syncthreads();
  return device::FindCut(keys, num_free, budget.count, scratch.cut);
}

// What a row's lists share.
__device__ void WriteRow(const ChoiceTask& task, int row, int num_lists,
                         float read_share) {
  task.lists.num_lists[row - task.lists.first_row] = num_lists;
  if (task.read_shares != nullptr) task.read_shares[row] += read_share;
}

// Chooses and writes one list.
__device__ void ChooseList(const ChoiceTask& task,
                           const device::Selector& selector,
                           const ListPlace& place, uint32_t* keys,
                           ChoiceScratch& scratch) {
  const device::RowBudget budget(selector, place.context);
  device::Cut cut = {};
  if (budget.NeedsScores()) {
    cut = ChooseBest(task, selector, place, budget, keys, scratch);
  }
  // A choice for the whole layer is every KV head's.
  const int num_copies =
      selector.scope == device::Scope::kLayer ? task.num_kv_heads : 1;
  const int num_lists = place.num_choices * num_copies;
  const device::ListWriter writer = {
      .selector = selector,
      .budget = budget,
      .context = place.context,
      .keys = keys,
      .cut = cut,
      .picks = task.lists.List(place.row, place.list),
      .capacity = task.lists.capacity,
      .num_copies = num_copies,
      .copy_stride = task.lists.picks_list_stride};
  const int num_picks = writer.Write(scratch.cut.of_warps);
  if (threadIdx.x != 0) return;
  for (int copy = 0; copy < num_copies; ++copy) {
    task.lists.NumPicks(place.row, place.list + copy) = num_picks;
  }
  if (place.list != 0) return;
  // All lists of a row are of as many tokens.
  const double of_list =
      static_cast<double>(budget.NumTokens(selector, place.context));
  const double num_read = num_lists * of_list;
  const double num_tokens =
      static_cast<double>(int64_t{num_lists} * place.context);
  WriteRow(task, place.row, num_lists,
           static_cast<float>(num_read / num_tokens));
}

// A block has a (row, list). Its threads are over partitions: each works out
// its partitions' scores (map, reduction over heads, pool) and writes them as
// integer keys; the block finds the key at which the budget ends, a digit of 11
// bits at a time; then warps write what lies below it, in order, with counts of
// those before. Rows that read everything say so. Bytes: num_planes x summary
// rows x 4 read, the list written. Grid [lists, rows of the wave].
template <bool kSharedKeys>
__global__ void __launch_bounds__(device::kChooseThreads, 1)
    ChooseKernel(const __grid_constant__ ChoiceTask task) {
  extern __shared__ uint32_t shared_keys[];  // where kSharedKeys
  __shared__ ChoiceScratch scratch;
  ListPlace place = {};
  place.list = blockIdx.x;
  place.wave_row = blockIdx.y;
  place.row = task.first_row + place.wave_row;
  place.request = task.rows.Request(place.row);
  const int index =
      task.rows.selector == nullptr ? -1 : task.rows.selector[place.request];
  const int entry = index < 0 ? -1 : index - task.first_selector;
  // Rows without a selector are the first launch's.
  if (index < 0 ? task.first_selector != 0
                : entry < 0 || entry >= task.num_selectors) {
    return;
  }
  const bool has_program = index >= 0 && task.selectors[entry].has_program;
  if (!has_program || task.selectors[entry].ReadsAll(task.rows, place.row)) {
    if (place.list != 0 || threadIdx.x != 0) return;
    task.lists.NumPicks(place.row, 0) = device::kEveryPage;
    WriteRow(task, place.row, 1, has_program ? 1.0f : 0.0f);
    return;
  }
  const device::Selector& selector = task.selectors[entry];
  place.num_choices = selector.scope == device::Scope::kLayer ? 1
                      : selector.scope == device::Scope::kQHead
                          ? task.num_q_heads
                          : task.num_kv_heads;
  if (place.list >= place.num_choices) return;
  place.context = task.rows.Position(place.row) + 1;
  ChooseList(
      task, selector, place,
      kSharedKeys ? shared_keys : task.memory.Keys(place.wave_row, place.list),
      scratch);
}

// The most lists that a row of the step chooses.
int MaxChoices(const SelectArgs& args, const LayerCache& cache) {
  int most = 1;
  for (const LayerSelector& selector : args.selectors) {
    if (selector.program == nullptr) continue;
    const Scope scope = selector.program->scope;
    most = std::max(most, scope == Scope::kLayer ? 1
                          : scope == Scope::kQHead
                              ? static_cast<int>(args.q.dim(1))
                              : cache.num_kv_heads);
  }
  return most;
}

device::Lists DeviceLists(const PickLists& picks) {
  CHECK(picks.picks.stride[0] % 2 == 0 && picks.picks.stride[1] % 2 == 0 &&
            picks.picks.stride[2] == 2,
        "picks {}", ToString(picks.picks));
  return {.picks = reinterpret_cast<uint2*>(picks.picks.As<uint32_t>()),
          .num_picks = picks.num_picks.As<int32_t>(),
          .num_lists = picks.num_lists.As<int32_t>(),
          .picks_row_stride = picks.picks.stride[0] / 2,
          .picks_list_stride = picks.picks.stride[1] / 2,
          .num_picks_stride = picks.num_picks.stride[0],
          .capacity = picks.capacity(),
          .first_row = picks.first_row};
}

void Launch(CudaQueue& queue, const ChoiceTask& task, const dim3& grid) {
  if (task.memory.keys != nullptr) {
    ChooseKernel<false>
        <<<grid, device::kChooseThreads, 0, queue.stream()>>>(task);
  } else {
    const size_t shared_bytes =
        sizeof(uint32_t) * static_cast<size_t>(task.memory.keys_capacity);
    cudaFuncSetAttribute(ChooseKernel<true>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shared_bytes));
    ChooseKernel<true>
        <<<grid, device::kChooseThreads, shared_bytes, queue.stream()>>>(task);
  }
  queue.KeepLaunch("Select: choice");
}

}  // namespace

void EnqueueChoice(CudaQueue& queue, const LayerStep& step,
                   const SelectArgs& args, const LayerCache& cache,
                   const SelectWave& wave) {
  CHECK(args.q.dim(1) <= kMaxPlanes, "q_heads={} limit={}", args.q.dim(1),
        kMaxPlanes);
  ChoiceTask task = {};
  task.rows = DeviceRows(step);
  task.lists = DeviceLists(args.picks);
  task.memory = wave.memory;
  if (!args.read_shares.empty()) {
    task.read_shares = args.read_shares.As<float>();
  }
  task.scale = args.scale;
  task.first_row = wave.first_row;
  task.num_q_heads = static_cast<int>(args.q.dim(1));
  task.num_kv_heads = cache.num_kv_heads;
  const auto num_selectors = static_cast<int>(args.selectors.size());
  const dim3 grid(static_cast<unsigned>(MaxChoices(args, cache)),
                  static_cast<unsigned>(wave.num_rows));
  do {
    task.num_selectors =
        std::min(num_selectors - task.first_selector, kSelectorsALaunch);
    for (int i = 0; i < task.num_selectors; ++i) {
      task.selectors[i] = DeviceSelector(
          args.selectors[static_cast<size_t>(task.first_selector + i)], cache);
    }
    Launch(queue, task, grid);
    task.first_selector += kSelectorsALaunch;
  } while (task.first_selector < num_selectors);
}

}  // namespace winnow
