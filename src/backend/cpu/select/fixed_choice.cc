#include "backend/cpu/select/fixed_choice.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/isa/float_types.h"
#include "backend/cpu/select/forced_partitions.h"
#include "backend/cpu/select/row_scan.h"
#include "backend/cpu/select/summary_row.h"

namespace winnow {
namespace {

constexpr size_t kLaneBytes = size_t{1} << 20;

// Positions of the queries that are observed: [first, end).
int64_t FirstObserved(const SelectProgram& program, int64_t end) {
  return std::max<int64_t>(end - program.fixed.window_tokens, 0);
}

// The address of a key, as its cache's element type.
template <typename Kv>
const Kv* StoredKey(const LayerCache& cache, int request, int head,
                    int64_t token) {
  const std::byte* slice =
      cache.Slice(StepRows::KvBlock(cache, request, token / kPageTokens), head);
  return reinterpret_cast<const Kv*>(slice) +
         token % kPageTokens * cache.format.k_dim;
}

// Adds softmax(scale * raw) over all of `raw` to sums.
void AddSoftmax(std::span<const float> raw, float scale,
                std::span<float> sums) {
  const float greatest = std::ranges::max(raw) * scale;
  float sum = 0;
  for (const float score : raw) sum += std::exp(score * scale - greatest);
  for (size_t t = 0; t < sums.size(); ++t) {
    sums[t] += std::exp(raw[t] * scale - greatest) / sum;
  }
}

// `to[t]` = the tokens around t, reduced. A mean counts as zeros what lies
// outside of `from`.
void PoolTokens(const RowPool& pool, std::span<const float> from,
                std::span<float> to) {
  const auto count = std::ssize(from);
  for (int64_t t = 0; t < count; ++t) {
    const int64_t first = std::max<int64_t>(t - pool.pad, 0);
    const int64_t end = std::min<int64_t>(t - pool.pad + pool.size, count);
    float result = from[static_cast<size_t>(first)];
    for (int64_t i = first + 1; i < end; ++i) {
      const float next = from[static_cast<size_t>(i)];
      result = pool.reduction == Reduction::kMax ? std::max(result, next)
                                                 : result + next;
    }
    to[static_cast<size_t>(t)] = pool.reduction == Reduction::kMean
                                     ? result / static_cast<float>(pool.size)
                                     : result;
  }
}

// Of a row's request, what its selector fixes here, or null.
const LayerSelector* SelectorThatFixes(const StepRows& rows,
                                       const SummarizeArgs& args, int request) {
  const int index = rows.selector(request);
  if (index < 0) return nullptr;
  const LayerSelector& selector = args.selectors[static_cast<size_t>(index)];
  return selector.program == nullptr ||
                 selector.program->fixed.kind == FixedChoice::Kind::kNone
             ? nullptr
             : &selector;
}

}  // namespace

int64_t FixedEnd(const StepRows& rows, const SelectProgram& program,
                 int request) {
  switch (program.fixed.kind) {
    case FixedChoice::Kind::kNone:
      return 0;
    case FixedChoice::Kind::kObserved:
      return rows.num_prompt_tokens(request);
    case FixedChoice::Kind::kOutliers:
      return rows.num_context_tokens(request);
  }
  CHECK(false, "kind={}", static_cast<int>(program.fixed.kind));
}

FixedChoices::FixedChoices(const VectorKernels* kernels, ThreadPool& pool)
    : kernels_(kernels),
      pool_(pool),
      scratch_(static_cast<size_t>(pool.num_workers())) {
  for (Scratch& scratch : scratch_) {
    scratch.top = TopScores(kernels);
  }
}

void FixedChoices::Fix(const LayerStep& step, const SummarizeArgs& args,
                       const LayerCache& cache) {
  const StepRows rows(step);
  for (int request = 0; request < step.num_requests; ++request) {
    const LayerSelector* selector = SelectorThatFixes(rows, args, request);
    if (selector == nullptr) continue;
    CheckProgram(*selector->program);
    const int64_t end = FixedEnd(rows, *selector->program, request);
    KeepQueries(rows, args, request, end);
    const int64_t end_token =
        int64_t{rows.first_position(request)} + rows.num_tokens(request);
    if (end <= args.first_token.As<int32_t>()[request] || end > end_token) {
      continue;
    }
    const ForcedPartitions forced(*selector->program, end, end);
    const int num_lists = selector->fixed.layout.num_lists * cache.num_kv_heads;
    for (int list = 0; list < num_lists; ++list) {
      choices_.push_back({.rows = rows,
                          .args = args,
                          .selector = *selector,
                          .cache = cache,
                          .request = request,
                          .list = list,
                          .end = end,
                          .first_free = forced.first_free(),
                          .end_free = forced.end_free()});
    }
  }
  pool_.ParallelFor(std::ssize(choices_), [&](int64_t item, int worker) {
    Choose(choices_[static_cast<size_t>(item)],
           scratch_[static_cast<size_t>(worker)]);
  });
  choices_.clear();  // They refer to what the call was given.
}

void FixedChoices::KeepQueries(const StepRows& rows, const SummarizeArgs& args,
                               int request, int64_t end) const {
  const LayerSelector& selector = *SelectorThatFixes(rows, args, request);
  if (selector.program->fixed.kind != FixedChoice::Kind::kObserved) return;
  const int64_t first = rows.first_position(request);
  const FixedLayout& layout = selector.fixed.layout;
  CHECK(!args.q.empty() && args.q.dtype == layout.q_dtype, "q {} dtype={}",
        ToString(args.q), DtypeName(layout.q_dtype));
  const auto group_bytes = static_cast<size_t>(layout.group_heads) *
                           static_cast<size_t>(layout.k_dim) *
                           static_cast<size_t>(DtypeBytes(layout.q_dtype));
  const auto num_heads =
      static_cast<int>(args.q.dim(1)) / std::max(layout.group_heads, 1);
  for (int64_t p = std::max(first, FirstObserved(*selector.program, end));
       p < std::min(first + rows.num_tokens(request), end); ++p) {
    const int64_t row = rows.first_row(request) + p - first;
    const auto* q = reinterpret_cast<const std::byte*>(args.q.data) +
                    row * args.q.stride[0] * DtypeBytes(layout.q_dtype);
    for (int head = 0; head < num_heads; ++head) {
      const View kept = selector.fixed.Queries(request, head);
      std::memcpy(kept.data + static_cast<size_t>(p % layout.window_tokens) *
                                  group_bytes,
                  q + static_cast<size_t>(head) * group_bytes, group_bytes);
    }
  }
}

void FixedChoices::Choose(const Choice& choice, Scratch& scratch) const {
  const SelectProgram& program = choice.program();
  const int64_t block = program.block_tokens;
  const int64_t num_free = choice.end_free - choice.first_free;
  int64_t count = program.fixed.budget.TokensOf(choice.end) / block;
  if (program.fixed.kind == FixedChoice::Kind::kObserved) {
    count -= program.fixed.window_tokens / block;
  }
  count = std::clamp<int64_t>(count, 0, num_free);
  const FixedTable& table = choice.selector.fixed;
  const FixedTokens tokens = table.Tokens(choice.request, choice.kv_head(),
                                          choice.list % table.layout.num_lists);
  for (int64_t page = 0; page < PagesFor(choice.end); ++page) tokens[page] = 0;
  const uint32_t of_block = ~uint32_t{0} >> (kPageTokens - block);
  const auto fix = [&](int64_t b) {
    const int64_t token = (choice.first_free + b) * block;
    tokens[token / kPageTokens] |= of_block << token % kPageTokens;
  };
  if (count == num_free) {
    for (int64_t b = 0; b < num_free; ++b) fix(b);
  } else if (count > 0) {
    scratch.scores.resize(static_cast<size_t>(choice.end_free));
    if (program.fixed.kind == FixedChoice::Kind::kObserved) {
      Observe(choice, scratch);
    } else {
      ScoreOutliers(choice, scratch);
    }
    for (float& score : scratch.scores) {
      if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();
    }
    for (const int32_t b :
         scratch.top.Best(std::span<const float>(scratch.scores)
                              .subspan(static_cast<size_t>(choice.first_free)),
                          count)) {
      fix(b);
    }
  }
}

void FixedChoices::Observe(const Choice& choice, Scratch& scratch) const {
  const int64_t first = FirstObserved(choice.program(), choice.end);
  const int heads = choice.selector.fixed.layout.group_heads /
                    choice.selector.fixed.layout.num_lists;
  const int64_t num_queries = heads * (choice.end - first);
  scratch.sums.assign(static_cast<size_t>(choice.end_free), 0.0f);
  scratch.raw.resize(static_cast<size_t>(kUnitRows * choice.end));
  for (int64_t query = 0; query < num_queries; query += kUnitRows) {
    const int64_t count = std::min<int64_t>(kUnitRows, num_queries - query);
    ScoreQueries(choice, query, count, scratch);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t position = first + (query + i) % (choice.end - first);
      AddSoftmax({scratch.raw.data() + i * choice.end,
                  static_cast<size_t>(position + 1)},
                 choice.args.scale, scratch.sums);
    }
  }
  PoolTokens(choice.program().fixed.pool, scratch.sums, scratch.scores);
}

void FixedChoices::ScoreQueries(const Choice& choice, int64_t first,
                                int64_t count, Scratch& scratch) const {
  const FixedLayout& layout = choice.selector.fixed.layout;
  const int64_t first_position = FirstObserved(choice.program(), choice.end);
  const int64_t num_positions = choice.end - first_position;
  const int first_head =
      choice.list % layout.num_lists * (layout.group_heads / layout.num_lists);
  const View queries =
      choice.selector.fixed.Queries(choice.request, choice.kv_head());
  static constexpr SummaryRows kKeys = {SummaryRows::Kind::kKeys, 1, 1,
                                        Dtype::kFloat32};
  ScanTask task = {.rows = kKeys,
                   .table = choice.selector.summaries,
                   .cache = choice.cache,
                   .q = queries,
                   .request = choice.request,
                   .first_kv_head = choice.kv_head(),
                   .num_lanes = static_cast<int>(count)};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = first_position + (first + i) % num_positions;
    task.lanes[i] = {.row = position % layout.window_tokens,
                     .q_head = first_head + (first + i) / num_positions,
                     .scores = scratch.raw.data() + i * choice.end,
                     .num_scores = position + 1};
  }
  const int k_dim = layout.k_dim;
  if (kernels_ != nullptr && k_dim % 16 == 0 && 2 * k_dim <= kMaxAttendDim) {
    scratch.lanes.resize(kLaneBytes);
    RowScan(*kernels_, task, ScratchCutter(scratch.lanes.data(), kLaneBytes))
        .Run(0, choice.end, [] { return ScanSlots(); });
    return;
  }
  WithFloatType(queries.dtype, [&](auto q_element) {
    WithFloatType(choice.cache.format.k, [&](auto k_element) {
      using Q = decltype(q_element);
      using Kv = decltype(k_element);
      for (int64_t i = 0; i < count; ++i) {
        const ScanLane& lane = task.lanes[i];
        const Q* q = queries.Row<Q>(lane.row) + lane.q_head * k_dim;
        for (int64_t t = 0; t < lane.num_scores; ++t) {
          const Kv* key =
              StoredKey<Kv>(choice.cache, choice.request, choice.kv_head(), t);
          float sum = 0;
          for (int c = 0; c < k_dim; ++c) {
            sum += static_cast<float>(q[c]) * static_cast<float>(key[c]);
          }
          lane.scores[t] = sum;
        }
      }
    });
  });
}

void FixedChoices::ScoreOutliers(const Choice& choice, Scratch& scratch) const {
  const SelectProgram& program = choice.program();
  const int k_dim = choice.cache.format.k_dim;
  scratch.sums.resize(static_cast<size_t>(k_dim));
  WithFloatType(choice.cache.format.k, [&](auto element) {
    using Kv = decltype(element);
    for (int64_t b = choice.first_free; b < choice.end_free; ++b) {
      ReadSummaryRow(
          program.rows,
          choice.selector.summaries.Row(choice.request, choice.kv_head(), 0, b),
          scratch.sums);
      float of_mean = 0;
      for (const float x : scratch.sums) of_mean += x * x;
      float least = std::numeric_limits<float>::infinity();
      for (int t = 0; t < program.block_tokens; ++t) {
        const Kv* key =
            StoredKey<Kv>(choice.cache, choice.request, choice.kv_head(),
                          b * program.block_tokens + t);
        float dot = 0, of_key = 0;
        for (int c = 0; c < k_dim; ++c) {
          const auto x = static_cast<float>(key[c]);
          dot += scratch.sums[static_cast<size_t>(c)] * x;
          of_key += x * x;
        }
        constexpr float kLeastNorm = 1e-8f;  // as PyTorch's cosine_similarity
        least =
            std::min(least, dot / (std::max(std::sqrt(of_mean), kLeastNorm) *
                                   std::max(std::sqrt(of_key), kLeastNorm)));
      }
      scratch.scores[static_cast<size_t>(b)] = -least;
    }
  });
}

}  // namespace winnow
