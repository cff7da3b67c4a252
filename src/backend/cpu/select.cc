#include "backend/cpu/select.h"

#include <algorithm>
#include <bit>

#include "backend/cpu/step_rows.h"

namespace winnow {
namespace {

// The partitions that a row at position `context - 1` reads for sure.
class ForcedPartitions {
 public:
  ForcedPartitions(const SelectProgram& program, int64_t context)
      : own_((context - 1) / program.block_tokens) {
    const int64_t block = program.block_tokens;
    const auto blocks = [&](int64_t tokens) {
      return (tokens + block - 1) / block;
    };
    end_of_sink_ = std::min(blocks(program.forced.sink_tokens), own_);
    first_recent_ =
        std::max(own_ - blocks(program.forced.recent_tokens), end_of_sink_);
  }

  // What is not forced: [first_free(), end_free()).
  int64_t first_free() const { return end_of_sink_; }
  int64_t end_free() const { return first_recent_; }
  int64_t count() const { return end_of_sink_ + own_ + 1 - first_recent_; }

 private:
  int64_t own_;  // of the row's token
  int64_t end_of_sink_;
  int64_t first_recent_;
};

// How many partitions the scores decide on.
int64_t NumChosen(const SelectProgram& program, const ForcedPartitions& forced,
                  int64_t context) {
  int64_t count = program.budget.TokensOf(context) / program.block_tokens;
  if (program.forced.inside_budget) count -= forced.count();
  return std::clamp<int64_t>(count, 0, forced.end_free() - forced.first_free());
}

// Chooses for one list of one row.
class ListChoice {
 public:
  ListChoice(const ScoreTask& task, SelectScratch& scratch)
      : task_(task), scratch_(scratch) {}

  void Choose() {
    const SelectProgram& program = task_.program;
    const ForcedPartitions forced(program, task_.context);
    scratch_.tokens.assign(static_cast<size_t>(PagesFor(task_.context)), 0);
    for (int64_t b = 0; b < forced.first_free(); ++b) Mark(b);
    const int64_t count = NumChosen(program, forced, task_.context);
    if (count > 0) MarkBest(forced, count);
    for (int64_t b = forced.end_free();
         b * program.block_tokens < task_.context; ++b) {
      Mark(b);
    }
  }

  // Writes the list; returns its length.
  int32_t WriteTo(Pick* picks, int64_t capacity) const {
    int64_t count = 0;
    for (size_t page = 0; page < scratch_.tokens.size(); ++page) {
      const uint32_t tokens = scratch_.tokens[page];
      if (tokens == 0) continue;
      CHECK(count < capacity, "page={} capacity={}", page, capacity);
      picks[count++] = {static_cast<uint32_t>(page), tokens};
    }
    return static_cast<int32_t>(count);
  }

 private:
  void MarkBest(const ForcedPartitions& forced, int64_t count) {
    std::vector<int64_t>& candidates = scratch_.candidates;
    candidates.clear();
    for (int64_t b = forced.first_free(); b < forced.end_free(); ++b) {
      candidates.push_back(b);
    }
    if (count < std::ssize(candidates)) {
      const std::span<const float> scores = scratch_.scores.Score(task_);
      std::nth_element(candidates.begin(), candidates.begin() + count - 1,
                       candidates.end(), [&](int64_t a, int64_t b) {
                         const float of_a = scores[static_cast<size_t>(a)];
                         const float of_b = scores[static_cast<size_t>(b)];
                         return of_a != of_b ? of_a > of_b : a < b;
                       });
      candidates.resize(static_cast<size_t>(count));
    }
    for (const int64_t b : candidates) Mark(b);
  }

  // Chooses the tokens of partition b that are not behind the row.
  void Mark(int64_t b) {
    const int64_t block = task_.program.block_tokens;
    const int64_t end = std::min((b + 1) * block, task_.context);
    for (int64_t token = b * block; token < end;) {
      const int64_t in_page = token % kPageTokens;
      const int64_t count = std::min(end - token, kPageTokens - in_page);
      scratch_.tokens[static_cast<size_t>(token / kPageTokens)] |=
          (~uint32_t{0} >> (kPageTokens - count)) << in_page;
      token += count;
    }
  }

  const ScoreTask& task_;
  SelectScratch& scratch_;
};

// One row's lists.
class RowChoice {
 public:
  RowChoice(const StepRows& rows, const SelectArgs& args,
            const LayerCache& cache, int64_t row)
      : rows_(rows),
        args_(args),
        cache_(cache),
        row_(row),
        program_(ProgramOf(rows, args, row)) {}

  // What all of the row's lists share, once.
  void Begin() const {
    int32_t num_lists = 1;
    if (program_ != nullptr) {
      num_lists = program_->scope == Scope::kQHead
                      ? static_cast<int32_t>(args_.q.dim(1))
                      : cache_.num_kv_heads;
    }
    args_.picks.NumLists(row_) = num_lists;
    if (program_ == nullptr) args_.picks.NumPicks(row_, 0) = kEveryPage;
  }

  // Chooses for list `list`, if the row has it.
  void Choose(int list, SelectScratch& scratch) const {
    if (program_ == nullptr) return;
    const int num_heads = static_cast<int>(args_.q.dim(1));
    const bool of_layer = program_->scope == Scope::kLayer;
    const int num_choices = of_layer ? 1
                            : program_->scope == Scope::kQHead
                                ? num_heads
                                : cache_.num_kv_heads;
    if (list >= num_choices) return;
    const int heads = num_heads / num_choices;
    const int request = rows_.request(row_);
    const ScoreTask task = {.program = *program_,
                            .summaries = Selector(request).summaries,
                            .cache = cache_,
                            .q = args_.q,
                            .scale = args_.scale,
                            .request = request,
                            .row = row_,
                            .context = rows_.position(row_) + 1,
                            .first_head = list * heads,
                            .end_head = (list + 1) * heads};
    ListChoice choice(task, scratch);
    choice.Choose();
    const int end_list = of_layer ? cache_.num_kv_heads : list + 1;
    for (int i = list; i < end_list; ++i) {
      args_.picks.NumPicks(row_, i) =
          choice.WriteTo(args_.picks.List(row_, i), args_.picks.capacity());
    }
  }

 private:
  // Null where the row reads everything.
  static const SelectProgram* ProgramOf(const StepRows& rows,
                                        const SelectArgs& args, int64_t row) {
    const int request = rows.request(row);
    const int index = rows.selector(request);
    if (index < 0) return nullptr;
    const SelectProgram* program =
        args.selectors[static_cast<size_t>(index)].program;
    if (program == nullptr) return nullptr;
    const bool is_prompt = rows.is_prompt(row);
    if (is_prompt && !program->in_prompt) return nullptr;
    const int64_t length =
        is_prompt ? rows.num_prompt_tokens(request) : rows.position(row) + 1;
    return length < program->dense_len ? nullptr : program;
  }
  const LayerSelector& Selector(int request) const {
    return args_.selectors[static_cast<size_t>(rows_.selector(request))];
  }

  const StepRows& rows_;
  const SelectArgs& args_;
  const LayerCache& cache_;
  const int64_t row_;
  const SelectProgram* const program_;
};

void CheckSelect(const LayerStep& step, const SelectArgs& args,
                 const LayerCache& cache) {
  const PickLists& picks = args.picks;
  CHECK(args.q.dim(0) == step.num_rows && args.q.dim(2) == cache.format.k_dim &&
            args.q.dim(1) % cache.num_kv_heads == 0,
        "q {} rows={} kv_heads={} k_dim={}", ToString(args.q), step.num_rows,
        cache.num_kv_heads, cache.format.k_dim);
  CHECK(picks.first_row >= 0 &&
            picks.first_row + picks.num_rows() <= step.num_rows &&
            picks.num_picks.dim(1) == args.q.dim(1) &&
            picks.picks.dim(1) == args.q.dim(1),
        "first_row={} picks {} num_picks {} rows={} q {}", picks.first_row,
        ToString(picks.picks), ToString(picks.num_picks), step.num_rows,
        ToString(args.q));
  for (const LayerSelector& selector : args.selectors) {
    if (selector.program != nullptr) CheckProgram(*selector.program);
  }
}

// Tokens that a list names.
int64_t NumTokens(const PickLists& lists, int64_t row, int64_t list) {
  int64_t count = 0;
  for (int32_t i = 0; i < lists.NumPicks(row, list); ++i) {
    count += std::popcount(lists.List(row, list)[i].tokens);
  }
  return count;
}

void CountReads(const StepRows& rows, const SelectArgs& args,
                ThreadPool& pool) {
  const PickLists& lists = args.picks;
  pool.ParallelFor(lists.num_rows(), [&](int64_t i, int) {
    const int64_t row = lists.first_row + i;
    const int index = rows.selector(rows.request(row));
    if (index < 0 ||
        args.selectors[static_cast<size_t>(index)].program == nullptr) {
      return;
    }
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

}  // namespace

void SelectScalar(const LayerStep& step, const SelectArgs& args,
                  const LayerCache& cache, std::span<SelectScratch> scratch,
                  ThreadPool& pool) {
  if (step.num_rows == 0) return;
  CheckSelect(step, args, cache);
  const StepRows rows(step);
  const int64_t num_heads = args.q.dim(1);
  pool.ParallelFor(
      args.picks.num_rows() * num_heads, [&](int64_t item, int worker) {
        const RowChoice choice(rows, args, cache,
                               args.picks.first_row + item / num_heads);
        const int list = static_cast<int>(item % num_heads);
        if (list == 0) choice.Begin();
        choice.Choose(list, scratch[static_cast<size_t>(worker)]);
      });
  if (!args.read_shares.empty()) CountReads(rows, args, pool);
}

}  // namespace winnow
