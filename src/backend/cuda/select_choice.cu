#include <algorithm>

#include "backend/cuda/device/dependent_launch.cuh"
#include "backend/cuda/device/select_cut.cuh"
#include "backend/cuda/device/select_held.cuh"
#include "backend/cuda/device/select_list.cuh"
#include "backend/cuda/device/select_partitions.cuh"
#include "backend/cuda/select_choice.h"
#include "backend/cuda/select_launch.h"
#include "backend/cuda/select_views.h"
#include "backend/cuda/step_views.h"

namespace winnow {
namespace {

// Selectors that one launch knows; a step with more takes several.
constexpr int kSelectorsALaunch = 8;
struct ChoiceTask {
  device::StepRows rows;
  device::Lists lists;
  device::ScoreMemory memory;
  float* read_shares;  // [rows of the step], or null
  int first_row;       // of the wave
  int num_q_heads;
  int num_kv_heads;
  // Of the step's selectors, [first_selector, first_selector + num_selectors).
  int first_selector;
  int num_selectors;
  device::Selector selectors[kSelectorsALaunch];
};

// A row that chooses, and which of its lists.
struct ListPlace {
  int row;  // of the step
  int wave_row;
  int request;
  int context;
  int list;
  int num_choices;  // lists that are chosen
  int num_copies;   // a choice for the whole layer is every KV head's
};

// The list's scores: its only plane, or the first, to which its planes have
// been reduced.
__device__ const float* ScoresOf(const ChoiceTask& task,
                                 const device::Selector& selector,
                                 const ListPlace& place) {
  const int num_planes =
      selector.NumPlanes(task.num_q_heads, task.num_kv_heads);
  return task.memory.Plane(place.wave_row,
                           place.list * (num_planes / place.num_choices));
}

// What a row's lists share, by one thread.
struct RowResult {
  int num_lists;
  float read_share;

  // All lists of a row are of as many tokens.
  __device__ static RowResult Of(const device::Selector& selector,
                                 const device::RowBudget& budget,
                                 const ListPlace& place) {
    const int64_t of_list = selector.keeps_lists
                                ? place.context
                                : budget.NumTokens(selector, place.context);
    const int64_t num_lists = place.num_choices * place.num_copies;
    return {static_cast<int>(num_lists),
            static_cast<float>(static_cast<double>(num_lists * of_list) /
                               static_cast<double>(num_lists * place.context))};
  }

  __device__ void Write(const ChoiceTask& task, int row) const {
    task.lists.num_lists[row - task.lists.first_row] = num_lists;
    // Nobody else adds: as an atomic it need not be waited for.
    if (task.read_shares != nullptr) {
      atomicAdd(&task.read_shares[row], read_share);
    }
  }
};

// Chooses the best partitions and writes their picks to num_copies lists.
// Returns how many. All threads of the block call it.
__device__ int ChooseList(const ChoiceTask& task,
                          const device::Selector& selector,
                          const ListPlace& place, device::ListWriter& writer,
                          uint32_t* keys, device::CutScratch& scratch) {
  const device::RowBudget& budget = writer.budget;
  writer.keys = keys;
  if (budget.NeedsScores()) {
    device::WriteKeys(selector, budget, ScoresOf(task, selector, place),
                      selector.summaries.levels[0].NumVisible(place.context),
                      keys);
    writer.cut = device::FindCut(keys, budget.end_free - budget.first_free,
                                 budget.count, scratch);
  }
  return writer.Write(scratch.of_warps);
}

// The same where threads hold the keys. REQUIRES: scores choose.
__device__ int ChooseHeld(const ChoiceTask& task,
                          const device::Selector& selector,
                          const ListPlace& place, device::ListWriter& writer,
                          device::HeldChoice& held) {
  writer.cut =
      held.FindCut(ScoresOf(task, selector, place),
                   selector.summaries.levels[0].NumVisible(place.context));
  return held.Write(writer);
}

// Says what is read of a list and its copies: that were made, num_picks long,
// or that an earlier layer kept. One thread calls it.
__device__ void FinishList(const ChoiceTask& task,
                           const device::Selector& selector,
                           const ListPlace& place, int num_picks) {
  for (int copy = 0; copy < place.num_copies; ++copy) {
    const int list = place.list + copy;
    if (selector.reuses_lists) num_picks = task.lists.NumKept(place.row, list);
    if (selector.keeps_lists) task.lists.NumKept(place.row, list) = num_picks;
    task.lists.NumPicks(place.row, list) =
        selector.keeps_lists ? device::kEveryPage : num_picks;
    task.lists.SetNumEstimates(place.row, list, 0);
  }
}

// A block has a (row, list). Its threads are over partitions: each pools its
// partitions' rows and makes integer keys of their scores; the block finds the
// key at which the budget ends, a digit at a time, from the first bit in which
// keys differ; then warps write what lies below it, in order, with counts of
// those before. Threads hold the keys where they can. Rows that read everything
// say so. Read may begin when scores are there, not before: it asks for weights
// at once, and scores need all of the memory's rate. Bytes: 4 a summary row
// read, the list written. Grid [lists, rows of the wave]. (That it asked for
// the chosen pages, so that Read would find them in L2, made steps slower: few
// multiprocessors asked for what all of them read.)
template <bool kSharedKeys>
__global__ void __launch_bounds__(device::kChooseThreads, 2)
    ChooseKernel(const __grid_constant__ ChoiceTask task) {
  extern __shared__ uint32_t shared_keys[];  // where kSharedKeys
  __shared__ device::CutScratch scratch;
  __shared__ device::HeldScratch held_scratch;
  // What the step's tables say is looked up while others end.
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
    return device::BeginAfterPrior();
  }
  const bool has_program = index >= 0 && task.selectors[entry].has_program;
  if (!has_program || task.selectors[entry].ReadsAll(task.rows, place.row)) {
    device::BeginAfterPrior();
    if (place.list != 0 || threadIdx.x != 0) return;
    task.lists.NumPicks(place.row, 0) = device::kEveryPage;
    task.lists.SetNumEstimates(place.row, 0, 0);
    return RowResult{1, has_program ? 1.0f : 0.0f}.Write(task, place.row);
  }
  const device::Selector& selector = task.selectors[entry];
  // Another launch has those.
  if (selector.ChoosesByMasks()) return device::BeginAfterPrior();
  place.num_choices = selector.scope == device::Scope::kLayer ? 1
                      : selector.scope == device::Scope::kQHead
                          ? task.num_q_heads
                          : task.num_kv_heads;
  place.num_copies =
      selector.scope == device::Scope::kLayer ? task.num_kv_heads : 1;
  place.context = task.rows.Position(place.row) + 1;
  const device::RowBudget budget(selector, place.context, 0);
  device::ListWriter writer(selector, budget, place.context);
  writer.cut = {};
  writer.picks = task.lists.List(place.row, place.list);
  writer.capacity = task.lists.capacity;
  writer.num_copies = place.num_copies;
  writer.copy_stride = task.lists.picks_list_stride;
  const RowResult result = RowResult::Of(selector, budget, place);
  if (place.list >= place.num_choices) return device::BeginAfterPrior();
  const bool scored = !selector.reuses_lists && budget.NeedsScores();
  if (!scored) device::LetNextBegin();
  const bool holds = kSharedKeys && scored && !selector.Pools() &&
                     budget.num_partitions <= device::kMaxHeldPartitions;
  int num_picks = 0;
  if (holds) {
    device::HeldChoice held(budget, writer.group_partitions, held_scratch);
    device::WaitForPrior();
    device::LetNextBegin();
    num_picks = ChooseHeld(task, selector, place, writer, held);
  } else {
    device::WaitForPrior();
    if (scored) device::LetNextBegin();
    if (!selector.reuses_lists) {
      uint32_t* keys = kSharedKeys
                           ? shared_keys
                           : task.memory.Keys(place.wave_row, place.list);
      num_picks = ChooseList(task, selector, place, writer, keys, scratch);
    }
  }
  if (threadIdx.x != 0) return;
  FinishList(task, selector, place, num_picks);
  if (place.list == 0) result.Write(task, place.row);
}

// The most lists that a row of the step chooses.
int MaxChoices(const SelectArgs& args, const LayerCache& cache) {
  int most = 1;
  for (const LayerSelector& selector : args.selectors) {
    if (selector.program == nullptr) continue;
    most = std::max(most, NumChoices(*selector.program,
                                     static_cast<int>(args.q.dim(1)), cache));
  }
  return most;
}

}  // namespace

void EnqueueChoice(CudaQueue& queue, const LayerStep& step,
                   const SelectArgs& args, const LayerCache& cache,
                   const SelectWave& wave) {
  ChoiceTask task = {};
  task.rows = DeviceRows(step);
  task.lists = DeviceChosenLists(args.picks);
  task.memory = wave.memory;
  if (!args.read_shares.empty()) {
    task.read_shares = args.read_shares.As<float>();
  }
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
    LaunchChoosing<ChoiceTask>(
        queue, {"Select: choice", ChooseKernel<true>, ChooseKernel<false>},
        grid, task.memory.keys_capacity, task);
    task.first_selector += kSelectorsALaunch;
  } while (task.first_selector < num_selectors);
}

}  // namespace winnow
