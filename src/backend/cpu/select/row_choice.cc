#include "backend/cpu/select/row_choice.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "backend/cpu/isa/count_bits.h"
#include "backend/cpu/isa/prefetch_lines.h"
#include "backend/cpu/select/cluster_choice.h"
#include "backend/cpu/select/fixed_choice.h"
#include "backend/cpu/select/forced_partitions.h"
#include "backend/cpu/select/token_masks.h"

namespace winnow {
namespace {

// How many partitions are fixed. REQUIRES: they are not forced too.
int64_t NumFixed(const SelectProgram& program, const ForcedPartitions& forced,
                 const FixedTokens& fixed) {
  if (!fixed) return 0;
  int64_t num_tokens = 0;
  const int64_t end = forced.end_free() * program.block_tokens;
  fixed.ForEachSegment(PagesFor(end),
                       [&](int64_t, std::span<const uint32_t> words) {
                         int of_segment = 0;  // a loop of vectors
                         for (const uint32_t tokens : words)
                           of_segment += CountBits(tokens);
                         num_tokens += of_segment;
                       });
  return num_tokens / program.block_tokens;
}

// How many partitions the scores decide on, of `num_free`.
int64_t NumChosen(const SelectProgram& program, const ForcedPartitions& forced,
                  int64_t context, int64_t num_free) {
  const int64_t tokens = program.budget.TokensOf(context);
  const int64_t block = program.block_tokens;
  // All of it is also the last partition, whole or not.
  int64_t count = tokens >= context ? context / block + 1 : tokens / block;
  if (program.forced.inside_budget) count -= forced.count();
  return std::clamp<int64_t>(count, 0, num_free);
}

// Writes one list: partitions in ascending order.
class ListWriter {
 public:
  ListWriter(const ScoreTask& task, const PickLists& lists, int list)
      : task_(task),
        picks_(lists.List(task.row, list)),
        capacity_(lists.capacity()) {}

  int32_t count() const { return static_cast<int32_t>(count_); }

  // Fetches where the first of so many partitions more go, while these are
  // chosen.
  void PrefetchAhead(int64_t num_partitions) const {
    constexpr int64_t kMostPicks = 512;  // which leave room in a first level
    const int64_t pages_a_block =
        std::max<int64_t>(task_.program.block_tokens / kPageTokens, 1);
    PrefetchToWrite(picks_ + count_,
                    std::min({num_partitions * pages_a_block,
                              capacity_ - count_, kMostPicks}));
  }

  // Adds the tokens of partition b that are not behind the row.
  void Add(int64_t b) {
    const int64_t block = task_.program.block_tokens;
    const int64_t end = std::min((b + 1) * block, task_.context);
    for (int64_t token = b * block; token < end;) {
      const int64_t in_page = token % kPageTokens;
      const int64_t num = std::min(end - token, kPageTokens - in_page);
      AddTokens(static_cast<uint32_t>(token / kPageTokens),
                (~uint32_t{0} >> (kPageTokens - num)) << in_page);
      token += num;
    }
  }

  // Adds partitions first + chosen[i], which ascend and end before the row.
  // Which of them share a page no branch would foresee.
  void AddWhole(std::span<const int32_t> chosen, int64_t first) {
    const int64_t block = task_.program.block_tokens;
    if (block >= kPageTokens) return AddWholePages(chosen, first);
    const uint32_t of_block = ~uint32_t{0} >> (kPageTokens - block);
    Pick last = {~uint32_t{0}, 0};  // a page that no context has
    if (count_ > 0) last = picks_[count_ - 1];
    int64_t count = count_;
    for (const int32_t i : chosen) {
      const int64_t token = (first + i) * block;
      const auto page = static_cast<uint32_t>(token / kPageTokens);
      const uint32_t shared = page == last.page ? ~uint32_t{0} : 0;
      last = {page, (last.tokens & shared) | of_block << token % kPageTokens};
      count += 1 - (shared & 1);
      CHECK(count <= capacity_, "page={} capacity={}", page, capacity_);
      picks_[count - 1] = last;
    }
    count_ = count;
  }

  // Adds tokens of pages. REQUIRES: none is before the list's last one, which
  // is one of them.
  void AddPages(const TokenMasks& masks) {
    int64_t first_page = 0;
    if (count_ > 0) {
      const uint32_t last = picks_[count_ - 1].page;
      picks_[count_ - 1].tokens |= masks[last];
      first_page = int64_t{last} + 1;
    }
    count_ += masks.Write(first_page, picks_ + count_, capacity_ - count_);
  }

 private:
  // Adds tokens of a page; pages ascend.
  void AddTokens(uint32_t page, uint32_t tokens) {
    if (count_ > 0 && picks_[count_ - 1].page == page) {
      picks_[count_ - 1].tokens |= tokens;
      return;
    }
    CHECK(count_ < capacity_, "page={} capacity={}", page, capacity_);
    picks_[count_++] = {page, tokens};
  }

  // AddWhole where a partition is whole pages.
  void AddWholePages(std::span<const int32_t> chosen, int64_t first) {
    const int64_t num_pages = task_.program.block_tokens / kPageTokens;
    const int64_t count = count_ + std::ssize(chosen) * num_pages;
    CHECK(count <= capacity_, "pages={} capacity={}", count, capacity_);
    Pick* to = picks_ + count_;
    for (const int32_t i : chosen) {
      const int64_t first_page = (first + i) * num_pages;
      for (int64_t page = first_page; page < first_page + num_pages; ++page) {
        *to++ = {static_cast<uint32_t>(page), ~uint32_t{0}};
      }
    }
    count_ = count;
  }

  const ScoreTask& task_;
  Pick* picks_;
  int64_t capacity_;
  int64_t count_ = 0;
};

// What is fixed and what is chosen before partition `end_free`.
void AddFixed(const ScoreTask& task, int64_t end_free,
              std::span<const int32_t> chosen, int64_t first,
              std::vector<uint32_t>& pages, ListWriter& list) {
  const int64_t block = task.program.block_tokens;
  TokenMasks masks(PagesFor(end_free * block), pages);
  masks.Add(task.fixed);
  for (const int32_t i : chosen) {
    masks.AddRange((first + i) * block, (first + i + 1) * block);
  }
  list.AddPages(masks);
}

// What scores decide on, for a row whose list they decide on.
struct ScoredPartitions {
  const ForcedPartitions& forced;
  std::span<const float> scores;  // of those that are free
  int64_t num_open = 0;           // of these, not fixed
};

// The partitions that a larger budget adds to `chosen`.
void WriteNext(const ScoreTask& task, const ScoredPartitions& of,
               std::span<const int32_t> chosen, double budget_times,
               SelectScratch& scratch, ListWriter& next) {
  const int64_t count = NumChosen(WithBudgetTimes(task.program, budget_times),
                                  of.forced, task.context, of.num_open);
  scratch.ranked.assign(chosen.begin(), chosen.end());
  size_t passed = 0;
  for (const int32_t i : scratch.top.Best(
           of.scores, count == of.num_open ? std::ssize(of.scores) : count)) {
    if (passed < scratch.ranked.size() && scratch.ranked[passed] == i) {
      ++passed;
      continue;
    }
    const int64_t b = of.forced.first_free() + i;
    const int64_t token = b * task.program.block_tokens;
    const bool is_fixed =
        task.fixed &&
        (task.fixed[token / kPageTokens] >> token % kPageTokens & 1) != 0;
    if (!is_fixed) next.Add(b);
  }
}

// `next`: null where the next ranks are not asked for.
void WriteList(const ScoreTask& task, const ForcedPartitions& forced,
               const NextRanks& asked, SelectScratch& scratch, ListWriter& list,
               ListWriter* next) {
  const int64_t first = forced.first_free();
  const int64_t num_free = forced.end_free() - first;
  const int64_t num_open =
      num_free - NumFixed(task.program, forced, task.fixed);
  for (int64_t b = 0; b < first; ++b) list.Add(b);
  const bool by_threshold = task.program.rule == Rule::kThreshold;
  const int64_t count = NumChosen(task.program, forced, task.context, num_open);
  const bool by_rank = !by_threshold && count > 0 && count < num_open;
  std::span<const float> scores;
  std::span<const int32_t> chosen;
  if (by_rank) list.PrefetchAhead(count);
  if (by_rank || (by_threshold && num_free > 0)) {
    scores = scratch.scores.Score(task, forced.end_free())
                 .subspan(static_cast<size_t>(first));
    chosen = by_rank ? scratch.top.Best(scores, count)
                     : scratch.top.Above(scores, task.program.threshold);
  }
  if (count == num_open && !by_threshold) {
    for (int64_t i = 0; i < num_free; ++i) list.Add(first + i);
  } else if (task.fixed) {
    AddFixed(task, forced.end_free(), chosen, first, scratch.tokens, list);
  } else {
    list.AddWhole(chosen, first);
  }
  for (int64_t b = forced.end_free();
       b * task.program.block_tokens < task.context; ++b) {
    list.Add(b);
  }
  if (next == nullptr || !by_rank) return;
  WriteNext(task, {forced, scores, num_open}, chosen, asked.budget_times,
            scratch, *next);
}

// Null where the row reads everything.
const SelectProgram* ProgramOf(const StepRows& rows, const SelectArgs& args,
                               int64_t row) {
  const int request = rows.request(row);
  const int index = rows.selector(request);
  if (index < 0) return nullptr;
  const SelectProgram* program =
      args.selectors[static_cast<size_t>(index)].program;
  if (program == nullptr) return nullptr;
  if (rows.position(row) < FixedEnd(rows, *program, request)) return nullptr;
  const bool is_prompt = rows.is_prompt(row);
  if (is_prompt && !program->in_prompt) return nullptr;
  const int64_t length =
      is_prompt ? rows.num_prompt_tokens(request) : rows.position(row) + 1;
  return length < program->dense_len ? nullptr : program;
}

}  // namespace

RowChoice::RowChoice(const SelectRows& of, int64_t row)
    : rows_(of.rows),
      args_(of.args),
      cache_(of.cache),
      gate_queries_(of.gate_queries),
      row_(row),
      program_(ProgramOf(of.rows, of.args, row)),
      fixed_end_(program_ == nullptr
                     ? 0
                     : FixedEnd(of.rows, *program_, of.rows.request(row))) {}

bool RowChoice::NeedsScores() const {
  if (program_ == nullptr || selector().reuse_layer >= 0) return false;
  const int64_t context = rows_.position(row_) + 1;
  if (program_->rows.kind == SummaryRows::Kind::kClusters) {
    return ClustersNeedScores(*program_, context);
  }
  const ForcedPartitions forced(*program_, context, fixed_end_);
  // Lists fix as many partitions as each other.
  const int64_t num_open = forced.end_free() - forced.first_free() -
                           NumFixed(*program_, forced, Fixed(0));
  if (program_->rule == Rule::kThreshold) return num_open > 0;
  const int64_t count = NumChosen(*program_, forced, context, num_open);
  return count > 0 && count < num_open;
}

int64_t RowChoice::scored_tokens() const {
  const int64_t context = rows_.position(row_) + 1;
  if (program_->rows.kind == SummaryRows::Kind::kClusters) {
    return NumClusteredTokens(*program_, context);
  }
  if (fixed_end_ == 0) return context;
  return ForcedPartitions(*program_, context, fixed_end_).end_free() *
         program_->block_tokens;
}

FixedTokens RowChoice::Fixed(int list) const {
  if (fixed_end_ == 0) return {};
  const FixedTable& table = selector().fixed;
  const int num_lists = table.layout.num_lists;
  return table.Tokens(rows_.request(row_), list / num_lists, list % num_lists);
}

const LayerSelector& RowChoice::selector() const {
  const int index = rows_.selector(rows_.request(row_));
  return args_.selectors[static_cast<size_t>(index)];
}

int RowChoice::NumChoices() const {
  switch (program_->scope) {
    case Scope::kQHead:
      return static_cast<int>(args_.q.dim(1));
    case Scope::kKvHead:
      return cache_.num_kv_heads;
    case Scope::kLayer:
      return 1;
  }
  CHECK(false, "scope={}", static_cast<int>(program_->scope));
}

int RowChoice::ReducedHeads() const {
  // A KV head's scan has not all that a layer's list is made of.
  if (!ReducesHeadsAlone(*program_) || fixed_end_ != 0 ||
      program_->rows.kind == SummaryRows::Kind::kClusters ||
      program_->scope == Scope::kLayer) {
    return 0;
  }
  return static_cast<int>(queries().dim(1)) / NumChoices();
}

int RowChoice::ListsOfKvHead() const {
  if (program_ == nullptr) return 0;
  CHECK(program_->scope != Scope::kLayer, "row={}", row_);
  return NumChoices() / cache_.num_kv_heads;
}

const SummaryTable& RowChoice::summaries() const {
  return selector().summaries;
}

const View& RowChoice::queries() const {
  return program_ != nullptr && program_->rows.kind == SummaryRows::Kind::kGate
             ? gate_queries_
             : args_.q;
}

bool RowChoice::WantsNext() const {
  const NextRanks& next = args_.next;
  return !next.lists.picks.empty() && !rows_.is_prompt(row_) &&
         next.slots->num_segments.As<int32_t>()[rows_.request(row_)] > 0 &&
         selector().reuse_layer < 0;
}

void RowChoice::Finish(int list, int32_t num_picks, int32_t num_next) const {
  if (!args_.next.lists.picks.empty()) {
    args_.next.lists.NumPicks(row_, list) = num_next;
  }
  if (selector().keeps_lists) {
    args_.picks.NumKept(row_, list) = num_picks;
    num_picks = kEveryPage;
  }
  args_.picks.NumPicks(row_, list) = num_picks;
  const bool estimates = program_->rows.kind == SummaryRows::Kind::kClusters;
  if (!estimates && !args_.picks.num_estimates.empty()) {
    args_.picks.NumEstimates(row_, list) = 0;
  }
}

void RowChoice::Begin() const {
  int32_t num_lists = 1;
  if (program_ != nullptr) {
    num_lists = program_->scope == Scope::kQHead
                    ? static_cast<int32_t>(args_.q.dim(1))
                    : cache_.num_kv_heads;
  }
  args_.picks.NumLists(row_) = num_lists;
  const PickLists& next = args_.next.lists;
  if (!next.picks.empty()) next.NumLists(row_) = num_lists;
  if (program_ != nullptr) return;
  if (!next.picks.empty()) next.NumPicks(row_, 0) = 0;
  args_.picks.NumPicks(row_, 0) = kEveryPage;
  if (!args_.picks.num_estimates.empty()) args_.picks.NumEstimates(row_, 0) = 0;
}

void RowChoice::KeepScores(const ScoreTask& task, int list, int end_list,
                           RowScores& scores) const {
  const View& to = args_.scores;
  CHECK(task.context <= to.dim(2), "scores {} context={}", ToString(to),
        task.context);
  float* first = to.Row<float>(row_ - args_.picks.first_row);
  const std::span<float> tokens(first + list * to.stride[1],
                                static_cast<size_t>(to.dim(2)));
  std::ranges::fill(tokens, -std::numeric_limits<float>::infinity());
  if (NeedsScores()) {
    const int64_t block = program_->block_tokens;
    const std::span<const float> of =
        scores.Score(task, (task.scored_tokens + block - 1) / block);
    if (program_->rows.kind == SummaryRows::Kind::kClusters) {
      SpreadClusterScores(task, of, tokens);
    } else {
      const int64_t end = std::min(task.context, std::ssize(of) * block);
      for (int64_t token = 0; token < end; ++token) {
        tokens[static_cast<size_t>(token)] =
            of[static_cast<size_t>(token / block)];
      }
    }
  }
  for (int i = list + 1; i < end_list; ++i) {
    std::ranges::copy(tokens, first + i * to.stride[1]);
  }
}

void RowChoice::Choose(int list, const RawScores& raw,
                       SelectScratch& scratch) const {
  if (program_ == nullptr) return;
  const bool of_layer = program_->scope == Scope::kLayer;
  const int num_choices = NumChoices();
  if (selector().reuse_layer >= 0) {
    if (list >= std::max(num_choices, cache_.num_kv_heads)) return;
    return Finish(list, args_.picks.NumKept(row_, list), 0);
  }
  if (list >= num_choices) return;
  // A gate's query is one for a KV head.
  const int heads = static_cast<int>(queries().dim(1)) / num_choices;
  const ScoreTask task = {.program = *program_,
                          .summaries = summaries(),
                          .cache = cache_,
                          .q = queries(),
                          .scale = args_.scale,
                          .request = rows_.request(row_),
                          .row = row_,
                          .context = rows_.position(row_) + 1,
                          .scored_tokens = scored_tokens(),
                          .first_head = list * heads,
                          .end_head = (list + 1) * heads,
                          .raw = raw,
                          .fixed = Fixed(list)};
  if (!args_.scores.empty()) {
    KeepScores(task, list, of_layer ? cache_.num_kv_heads : list + 1,
               scratch.scores);
  }
  const PickLists& next = args_.next.lists;
  if (program_->rows.kind == SummaryRows::Kind::kClusters) {
    const ClusterCounts counts =
        WriteClusterList(task, args_, list, WantsNext(), scratch);
    return Finish(list, counts.num_picks, counts.num_next);
  }
  ListWriter writer(task, args_.picks, list);
  std::optional<ListWriter> of_next;
  if (WantsNext()) of_next.emplace(task, next, list);
  WriteList(task, ForcedPartitions(*program_, task.context, fixed_end_),
            args_.next, scratch, writer, of_next ? &*of_next : nullptr);
  const int32_t num_next = of_next ? of_next->count() : 0;
  Finish(list, writer.count(), num_next);
  // A choice for the whole layer is every KV head's.
  for (int i = list + 1; of_layer && i < cache_.num_kv_heads; ++i) {
    std::copy_n(args_.picks.List(row_, list), writer.count(),
                args_.picks.List(row_, i));
    if (num_next > 0) {
      std::copy_n(next.List(row_, list), num_next, next.List(row_, i));
    }
    Finish(i, writer.count(), num_next);
  }
}

}  // namespace winnow
