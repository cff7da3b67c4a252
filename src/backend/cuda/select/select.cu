#include <algorithm>

#include "backend/cuda/select/gate_queries.h"
#include "backend/cuda/select/select.h"
#include "backend/cuda/select/select_choice.h"
#include "backend/cuda/select/select_masks.h"
#include "backend/cuda/select/select_next.h"
#include "backend/cuda/select/select_scores.h"
#include "backend/cuda/select/select_views.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

// A grid's last dimensions end at 65,535.
constexpr int64_t kMaxWaveRows = 32768;
constexpr int64_t kAlignBytes = 256;

int64_t Aligned(int64_t num_bytes) {
  return (num_bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
}

// The most that a row of the step may need of each thing, from the longest
// context that its pages can hold.
struct RowNeed {
  int64_t planes = 0, rows = 0;  // of scores
  int64_t heads = 0, tiles = 0;  // of what normalises them
  int64_t lists = 0, keys = 0;   // of partitions
  int64_t global_keys = 0;       // a list; 0: they fit shared memory
  int64_t pages = 0;             // of a list that masks are made of
  int64_t gate_numbers = 0;      // of gates' queries

  int64_t gates_bytes() const {
    return gate_numbers * static_cast<int64_t>(sizeof(float));
  }
  int64_t scores_bytes() const {
    return planes * rows * static_cast<int64_t>(sizeof(float));
  }
  int64_t partials_bytes() const {
    return heads * tiles * static_cast<int64_t>(sizeof(float2));
  }
  int64_t keys_bytes() const {
    return lists * global_keys * static_cast<int64_t>(sizeof(uint32_t));
  }
  int64_t masks_bytes() const {
    return global_keys == 0
               ? 0
               : lists * pages * static_cast<int64_t>(sizeof(uint32_t));
  }
};

// Whether scores may decide for any row of the step.
bool MayScore(const LayerStep& step, const LayerSelector& selector) {
  return selector.program != nullptr && selector.reuse_layer < 0 &&
         !step.selector.empty() &&
         (step.has_decode_rows ||
          (step.has_prefill_rows && selector.program->in_prompt));
}

// Whether the program ever leaves a choice to scores.
bool MayChoose(const SelectProgram& program) {
  return program.budget.value > 0 || program.estimate.value > 0 ||
         program.rule == Rule::kThreshold;
}

RowNeed NeedOf(const LayerStep& step, const SelectArgs& args,
               const LayerCache& cache) {
  const int64_t max_context = int64_t{cache.max_pages} * kPageTokens;
  RowNeed need;
  for (const LayerSelector& selector : args.selectors) {
    if (!MayScore(step, selector)) continue;
    const SelectProgram& program = *selector.program;
    const bool sums_groups =
        program.map == HeadMap::kNone && program.scope != Scope::kQHead;
    if (HasGate(selector)) {
      need.gate_numbers = int64_t{cache.num_kv_heads} * cache.format.k_dim;
    }
    need.planes = std::max<int64_t>(
        need.planes,
        sums_groups || HasGate(selector) ? cache.num_kv_heads : args.q.dim(1));
    need.rows = std::max(need.rows, MaxSlots(program, 0, max_context));
    if (program.map != HeadMap::kNone) {
      const int level = program.map == HeadMap::kSoftmax ? 0 : 1;
      need.heads = args.q.dim(1);
      need.tiles = std::max(need.tiles, (MaxSlots(program, level, max_context) +
                                         device::kTileSlots - 1) /
                                            device::kTileSlots);
    }
    need.lists = std::max<int64_t>(need.lists, program.scope == Scope::kQHead
                                                   ? args.q.dim(1)
                                                   : cache.num_kv_heads);
    if (MayChoose(program)) {
      need.keys = std::max(need.keys, (max_context + program.block_tokens - 1) /
                                          program.block_tokens);
    }
    if (ChoosesByMasks(program) || !args.next.lists.picks.empty()) {
      need.pages = cache.max_pages;
    }
  }
  if (std::max(need.keys, need.pages) > kMaxSharedKeys) {
    need.global_keys = std::max<int64_t>(need.keys, 1);
  }
  return need;
}

// Carves the workspace for as many of `num_rows` rows as fit.
SelectWave MakeWave(const CudaDevice& device, const RowNeed& need,
                    int64_t num_rows) {
  const int64_t row_bytes = need.scores_bytes() + need.partials_bytes() +
                            need.keys_bytes() + need.masks_bytes() +
                            need.gates_bytes();
  const int64_t have =
      static_cast<int64_t>(device.workspace_bytes) - 5 * kAlignBytes;
  int64_t fit = std::min(num_rows, kMaxWaveRows);
  if (row_bytes > 0) fit = std::min(fit, have / row_bytes);
  CHECK(fit > 0, "workspace_bytes={} a row's scores: {} bytes",
        device.workspace_bytes, row_bytes);
  SelectWave wave = {};
  wave.num_rows = static_cast<int>(fit);
  std::byte* at = device.workspace;
  wave.memory.scores = reinterpret_cast<float*>(at);
  at += Aligned(fit * need.scores_bytes());
  wave.memory.partials = reinterpret_cast<float2*>(at);
  at += Aligned(fit * need.partials_bytes());
  wave.gate_queries = reinterpret_cast<float*>(at);
  at += Aligned(fit * need.gates_bytes());
  if (need.global_keys > 0) {
    wave.memory.keys = reinterpret_cast<uint32_t*>(at);
    at += Aligned(fit * need.keys_bytes());
    wave.memory.masks = reinterpret_cast<uint32_t*>(at);
  }
  wave.memory.scores_stride = need.planes * need.rows;
  wave.memory.partials_stride = need.heads * need.tiles;
  wave.memory.keys_stride = need.lists * need.global_keys;
  wave.memory.masks_stride = need.lists * need.pages;
  wave.memory.rows_capacity = static_cast<int>(need.rows);
  wave.memory.tiles_capacity = static_cast<int>(need.tiles);
  wave.memory.keys_capacity = static_cast<int>(need.keys);
  wave.memory.pages_capacity = static_cast<int>(need.pages);
  return wave;
}

}  // namespace

void EnqueueSelect(CudaQueue& queue, const LayerStep& step,
                   const SelectArgs& args, const LayerCache& cache) {
  if (step.num_rows == 0 || args.picks.num_rows() == 0) return;
  CheckSelect(step, args, cache);
  const RowNeed need = NeedOf(step, args, cache);
  const int end_row = args.picks.first_row + args.picks.num_rows();
  int row = args.picks.first_row;
  while (row < end_row) {
    SelectWave wave = MakeWave(queue.device(), need, end_row - row);
    wave.first_row = row;
    for (size_t i = 0; i < args.selectors.size(); ++i) {
      if (!MayScore(step, args.selectors[i])) continue;
      EnqueueScores(queue, step, args, cache, wave, i);
    }
    EnqueueChoice(queue, step, args, cache, wave);
    for (size_t i = 0; i < args.selectors.size(); ++i) {
      const SelectProgram* program = args.selectors[i].program;
      if (program == nullptr || step.selector.empty() ||
          !ChoosesByMasks(*program)) {
        continue;
      }
      EnqueueMaskChoice(queue, step, args, cache, wave, i);
    }
    if (!args.next.lists.picks.empty()) {
      EnqueueNextRanks(queue, step, args, cache, wave);
    }
    row += wave.num_rows;
  }
}

}  // namespace winnow
