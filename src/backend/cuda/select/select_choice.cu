#include <algorithm>

#include "backend/cuda/device/attend/held_keys.cuh"
#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/select/select_cut.cuh"
#include "backend/cuda/device/select/select_held.cuh"
#include "backend/cuda/device/select/select_list.cuh"
#include "backend/cuda/device/select/select_partitions.cuh"
#include "backend/cuda/runtime/step_views.h"
#include "backend/cuda/select/select_choice.h"
#include "backend/cuda/select/select_launch.h"
#include "backend/cuda/select/select_views.h"

namespace winnow {
namespace {

// Selectors that one launch knows; a step with more takes several. Most steps
// have one: what a launch takes with it is then small, and at places that the
// compiler knows.
constexpr int kSelectorsALaunch = 8;
// Of the blocks that a multiprocessor runs at a time: a thread has 64
// registers.
constexpr int kListThreadsAnSm = 2 * device::kChooseThreads;

template <int kSelectors>
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
  device::Selector selectors[kSelectors];
};

// A row that chooses, and which of its lists.
struct ListPlace {
  int row;  // of the step
  int wave_row;
  int context;
  int list;
  int num_choices;  // lists that are chosen
  int num_copies;   // a choice for the whole layer is every KV head's
};

// The list's scores: its only plane, or the first, to which its planes have
// been reduced.
template <typename Task>
__device__ const float* ScoresOf(const Task& task,
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
    return {place.num_choices * place.num_copies,
            static_cast<float>(static_cast<double>(of_list) / place.context)};
  }

  template <typename Task>
  __device__ void Write(const Task& task, int row) const {
    task.lists.num_lists[row - task.lists.first_row] = num_lists;
    // Nobody else adds: as an atomic it need not be waited for.
    if (task.read_shares != nullptr) {
      atomicAdd(&task.read_shares[row], read_share);
    }
  }
};

// Chooses the best partitions and writes their picks to num_copies lists.
// Returns how many. All threads of the block call it.
template <typename Task>
__device__ int ChooseList(const Task& task, const device::Selector& selector,
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
  return writer.Write<device::kChooseThreads>(scratch.of_warps);
}

// The same where threads hold the scores. Returns how many
// to one thread, and to the others 0. REQUIRES: scores choose.
template <int kThreads, typename Task>
__device__ int ChooseHeld(const Task& task, const device::Selector& selector,
                          const ListPlace& place,
                          const device::ListWriter& writer,
                          device::HeldScratch<kThreads / 32>& scratch) {
  device::HeldKeys<kThreads> keys(writer.budget, scratch);
  device::HeldChoice<kThreads> choice(writer, scratch);
  device::WaitForPrior();
  device::LetNextBegin();
  keys.Load(ScoresOf(task, selector, place),
            selector.summaries.levels[0].NumVisible(place.context));
  // While they come; another warp says what is read of the list.
  if (place.list == 0 && threadIdx.x == kThreads - 1) {
    RowResult::Of(selector, writer.budget, place).Write(task, place.row);
  }
  choice.Take(keys);
  return choice.Write();
}

// Says what is read of a list and its copies: that were made, num_picks long,
// or that an earlier layer kept. One thread calls it.
template <typename Task>
__device__ void FinishList(const Task& task, const device::Selector& selector,
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
// those before. Where threads can hold the scores (HeldKeys), few are left
// after a look at each, and threads count among these (HeldChoice). Rows that
// read everything say so. Attend may begin when scores are there, not before:
// it asks for weights at once, and scores need all of the memory's rate. Bytes:
// 4 a summary row read, the list written. Grid [lists, rows of the wave].
// REQUIRES with less than kChooseThreads: one selector, whose scores threads
// can hold. (That it asked for the chosen pages, so that Attend would find them
// in L2, made steps slower: few multiprocessors asked for what all of them
// read. Where Attend may begin when all is chosen, a step of one row behind
// 128K took 4.88 ms in place of 4.85 on an H200, of 16 behind 32K 9.66 in place
// of 9.60; in `winnow bench ops`, where the next scores stand in Attend's
// place, "Select, quest 2048, 131072 tokens x 16" took 83 us in place of 111.)
template <bool kSharedKeys, int kSelectors, int kThreads>
__global__ void __launch_bounds__(kThreads, kListThreadsAnSm / kThreads)
    ChooseKernel(const __grid_constant__ ChoiceTask<kSelectors> task) {
  extern __shared__ uint32_t shared_keys[];  // where kSharedKeys
  __shared__ device::CutScratch scratch;
  __shared__ device::HeldScratch<kThreads / 32> held_scratch;
  // What the step's tables say is looked up while others end.
  ListPlace place = {};
  place.list = blockIdx.x;
  place.wave_row = blockIdx.y;
  place.row = task.first_row + place.wave_row;
  const device::RowPlace row = task.rows.Place(place.row);
  place.context = row.position + 1;
  const int index =
      task.rows.selector == nullptr ? -1 : task.rows.selector[row.request];
  const int entry = index < 0 ? -1 : index - task.first_selector;
  // Rows without a selector are the first launch's.
  if (index < 0 ? task.first_selector != 0
                : entry < 0 || entry >= task.num_selectors) {
    return device::BeginAfterPrior();
  }
  const device::Selector& selector =
      task.selectors[kSelectors == 1 ? 0 : max(entry, 0)];
  const bool has_program = index >= 0 && selector.has_program;
  if (!has_program || selector.ReadsAll(task.rows, row)) {
    device::BeginAfterPrior();
    if (place.list != 0 || threadIdx.x != 0) return;
    task.lists.NumPicks(place.row, 0) = device::kEveryPage;
    task.lists.SetNumEstimates(place.row, 0, 0);
    return RowResult{1, has_program ? 1.0f : 0.0f}.Write(task, place.row);
  }
  // Another launch has those.
  if (selector.ChoosesByMasks()) return device::BeginAfterPrior();
  place.num_choices = selector.scope == device::Scope::kLayer ? 1
                      : selector.scope == device::Scope::kQHead
                          ? task.num_q_heads
                          : task.num_kv_heads;
  place.num_copies =
      selector.scope == device::Scope::kLayer ? task.num_kv_heads : 1;
  const device::RowBudget budget(selector, place.context, 0);
  device::ListWriter writer(selector, budget, place.context);
  writer.cut = {};
  writer.picks = task.lists.List(place.row, place.list);
  writer.capacity = task.lists.capacity;
  writer.num_copies = place.num_copies;
  writer.copy_stride = task.lists.picks_list_stride;
  if (place.list >= place.num_choices) return device::BeginAfterPrior();
  const bool scored = !selector.reuses_lists && budget.NeedsScores();
  if (!scored) device::LetNextBegin();
  const bool holds = kSharedKeys && scored && !selector.Pools() &&
                     budget.num_partitions <= device::kMaxHeldKeys * kThreads;
  int num_picks = 0;
  if (holds) {
    num_picks =
        ChooseHeld<kThreads>(task, selector, place, writer, held_scratch);
  } else {
    device::WaitForPrior();
    if (scored) device::LetNextBegin();
    if constexpr (kThreads < device::kChooseThreads) {
      if (scored) __trap();  // They were to be held.
      if (!selector.reuses_lists) {
        num_picks = writer.Write<kThreads>(scratch.of_warps);
      }
    } else if (!selector.reuses_lists) {
      uint32_t* keys = kSharedKeys
                           ? shared_keys
                           : task.memory.Keys(place.wave_row, place.list);
      num_picks = ChooseList(task, selector, place, writer, keys, scratch);
    }
  }
  if (holds ? num_picks == 0 : threadIdx.x != 0) return;
  FinishList(task, selector, place, num_picks);
  if (place.list != 0 || holds) return;
  RowResult::Of(selector, budget, place).Write(task, place.row);
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

// Whether kHeldThreads hold the scores of each list.
bool HeldByFewThreads(const device::Selector& selector,
                      const device::ScoreMemory& memory) {
  return !selector.Pools() && memory.keys == nullptr &&
         memory.keys_capacity <= device::kMaxHeldKeys * device::kHeldThreads;
}

// Choices of the step's rows by the selectors from first_selector on, as many
// as one launch knows.
template <int kSelectors>
void Launch(CudaQueue& queue, const LayerStep& step, const SelectArgs& args,
            const LayerCache& cache, const SelectWave& wave,
            int first_selector) {
  ChoiceTask<kSelectors> task = {};
  task.rows = DeviceRows(step);
  task.lists = DeviceChosenLists(args.picks);
  task.memory = wave.memory;
  if (!args.read_shares.empty()) {
    task.read_shares = args.read_shares.As<float>();
  }
  task.first_row = wave.first_row;
  task.num_q_heads = static_cast<int>(args.q.dim(1));
  task.num_kv_heads = cache.num_kv_heads;
  task.first_selector = first_selector;
  task.num_selectors = std::min(
      static_cast<int>(args.selectors.size()) - first_selector, kSelectors);
  for (int i = 0; i < task.num_selectors; ++i) {
    task.selectors[i] = DeviceSelector(
        args.selectors[static_cast<size_t>(first_selector + i)], cache);
  }
  const dim3 grid(static_cast<unsigned>(MaxChoices(args, cache)),
                  static_cast<unsigned>(wave.num_rows));
  if constexpr (kSelectors == 1) {
    if (HeldByFewThreads(task.selectors[0], task.memory)) {
      return LaunchChoosing<ChoiceTask<1>>(
          queue,
          {.op = "Select: choice",
           .in_shared = ChooseKernel<true, 1, device::kHeldThreads>,
           .num_threads = device::kHeldThreads},
          grid, /*num_words=*/0, task);
    }
  }
  LaunchChoosing<ChoiceTask<kSelectors>>(
      queue,
      {.op = "Select: choice",
       .in_shared = ChooseKernel<true, kSelectors, device::kChooseThreads>,
       .in_memory = ChooseKernel<false, kSelectors, device::kChooseThreads>},
      grid, task.memory.keys_capacity, task);
}

}  // namespace

void EnqueueChoice(CudaQueue& queue, const LayerStep& step,
                   const SelectArgs& args, const LayerCache& cache,
                   const SelectWave& wave) {
  const auto num_selectors = static_cast<int>(args.selectors.size());
  if (num_selectors == 1) return Launch<1>(queue, step, args, cache, wave, 0);
  int first = 0;
  do {
    Launch<kSelectorsALaunch>(queue, step, args, cache, wave, first);
    first += kSelectorsALaunch;
  } while (first < num_selectors);
}

}  // namespace winnow
