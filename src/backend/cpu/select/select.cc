#include "backend/cpu/select/select.h"

#include <algorithm>

#include "backend/cpu/isa/count_bits.h"
#include "backend/cpu/select/row_choice.h"
#include "backend/cpu/step_rows.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

// True where the row's request has a selector that chooses in this layer.
bool HasProgram(const StepRows& rows, const SelectArgs& args, int64_t row) {
  const int index = rows.selector(rows.request(row));
  return index >= 0 &&
         args.selectors[static_cast<size_t>(index)].program != nullptr;
}

// Tokens that a list names.
int64_t NumTokens(const PickLists& lists, int64_t row, int64_t list) {
  int64_t count = 0;
  for (int32_t i = 0; i < lists.NumPicks(row, list); ++i) {
    count += CountBits(lists.List(row, list)[i].tokens);
  }
  return count;
}

// No row has more lists; a choice for the layer is written to every KV head's.
int64_t MostLists(const SelectRows& of) {
  const bool has_q_heads =
      std::ranges::any_of(of.args.selectors, [](const LayerSelector& selector) {
        return selector.program != nullptr &&
               selector.program->scope == Scope::kQHead;
      });
  return has_q_heads ? of.args.q.dim(1) : of.cache.num_kv_heads;
}

}  // namespace

void ChooseRows(const SelectRows& of, std::span<SelectScratch> scratch,
                ThreadPool& pool) {
  const int64_t num_lists = MostLists(of);
  const int64_t num_items = of.num_rows * num_lists;
  // So that workers come for more seldom, and are done together: what one takes
  // is the same list of several rows, of which one may be long.
  constexpr int kTurnsAWorker = 4;
  const int64_t grain =
      std::max<int64_t>(num_items / (kTurnsAWorker * pool.num_workers()), 1);
  pool.ParallelRanges(
      num_items, grain, [&](int64_t begin, int64_t end, int worker) {
        for (int64_t item = begin; item < end; ++item) {
          const int64_t index = item % of.num_rows;
          const RowChoice choice(of, of.first_row + index);
          const int list = static_cast<int>(item / of.num_rows);
          if (list == 0) choice.Begin();
          choice.Choose(
              list,
              of.raw.empty() ? RawScores() : of.raw[static_cast<size_t>(index)],
              scratch[static_cast<size_t>(worker)]);
        }
      });
}

void CountReads(const StepRows& rows, const SelectArgs& args,
                ThreadPool& pool) {
  if (args.read_shares.empty()) return;
  const PickLists& lists = args.picks;
  pool.ParallelFor(lists.num_rows(), [&](int64_t i, int) {
    const int64_t row = lists.first_row + i;
    if (!HasProgram(rows, args, row)) return;
    const int64_t context = rows.position(row) + 1;
    const int32_t num_lists = lists.NumLists(row);
    int64_t count = 0;
    for (int32_t list = 0; list < num_lists; ++list) {
      count += lists.NumPicks(row, list) == kEveryPage
                   ? context
                   : NumTokens(lists, row, list);
    }
    args.read_shares.As<float>()[row] += static_cast<float>(
        static_cast<double>(count) / static_cast<double>(num_lists * context));
  });
}

void SelectScalar(const LayerStep& step, const SelectArgs& args,
                  const LayerCache& cache, const View& gate_queries,
                  std::span<SelectScratch> scratch, ThreadPool& pool) {
  if (step.num_rows == 0) return;
  CheckSelect(step, args, cache);
  const StepRows rows(step);
  ChooseRows({.rows = rows,
              .args = args,
              .cache = cache,
              .gate_queries = gate_queries,
              .first_row = args.picks.first_row,
              .num_rows = args.picks.num_rows()},
             scratch, pool);
  CountReads(rows, args, pool);
}

}  // namespace winnow
