#include "backend/cpu/select/row_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/contract/cluster_segment.h"
#include "backend/cpu/isa/float_types.h"
#include "backend/cpu/select/summary_row.h"
#include "backend/cpu/step_rows.h"

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

constexpr float kNoScore = -std::numeric_limits<float>::infinity();

template <typename Q, typename Row>
float Dot(const Q* q, const Row* row, int dim) {
  float sum = 0;
  for (int c = 0; c < dim; ++c) {
    sum += static_cast<float>(q[c]) * static_cast<float>(row[c]);
  }
  return sum;
}

// The most that q may score against a point between the bounds.
template <typename Q, typename Row>
float Bound(const Q* q, const Row* row, int dim) {
  float sum = 0;
  for (int c = 0; c < dim; ++c) {
    const auto x = static_cast<float>(q[c]);
    sum += std::max(x * static_cast<float>(row[c]),
                    x * static_cast<float>(row[dim + c]));
  }
  return sum;
}

bool IsBound(const SummaryRows& rows) {
  return rows.kind == Kind::kMinMax || rows.kind == Kind::kCuboid;
}

// A row a partition: what most selectors have.
bool IsOneRow(const RowPool& pool) {
  return pool.size == 1 && pool.stride == 1 && pool.pad == 0;
}

int KvHeadOf(const ScoreTask& task, int head) {
  return head / static_cast<int>(task.q.dim(1) / task.cache.num_kv_heads);
}

// f(q of `head`): its numbers as they are stored.
template <typename F>
void WithQuery(const ScoreTask& task, int head, F&& f) {
  WithFloatType(task.q.dtype, [&](auto element) {
    using Q = decltype(element);
    f(task.q.Row<Q>(task.row) + head * task.q.stride[1]);
  });
}

// scores[j] = the score of row j of a level, j < scores.size().
void ScoreRows(const ScoreTask& task, int head, int level,
               std::span<float> scores) {
  const SummaryRows& rows =
      level == 0 ? task.program.rows : task.program.normalizer;
  const int kv_head = KvHeadOf(task, head);
  const int dim = task.cache.format.k_dim;
  if (rows.dtype == Dtype::kFloat8E4M3) {
    std::vector<float> row(static_cast<size_t>(IsBound(rows) ? 2 * dim : dim));
    WithQuery(task, head, [&](const auto* q) {
      for (size_t j = 0; j < scores.size(); ++j) {
        ReadSummaryRow(rows,
                       task.summaries.Row(task.request, kv_head, level,
                                          static_cast<int64_t>(j)),
                       row);
        scores[j] =
            IsBound(rows) ? Bound(q, row.data(), dim) : Dot(q, row.data(), dim);
      }
    });
    return;
  }
  WithQuery(task, head, [&](const auto* q) {
    WithFloatType(rows.dtype, [&](auto element) {
      using Row = decltype(element);
      for (size_t j = 0; j < scores.size(); ++j) {
        const auto* row = reinterpret_cast<const Row*>(task.summaries.Row(
            task.request, kv_head, level, static_cast<int64_t>(j)));
        scores[j] = IsBound(rows) ? Bound(q, row, dim) : Dot(q, row, dim);
      }
    });
  });
}

void ScoreKeys(const ScoreTask& task, int head, std::span<float> scores) {
  const int kv_head = KvHeadOf(task, head);
  const int dim = task.cache.format.k_dim;
  WithQuery(task, head, [&](const auto* q) {
    WithFloatType(task.cache.format.k, [&](auto element) {
      using Kv = decltype(element);
      for (size_t t = 0; t < scores.size(); ++t) {
        const auto token = static_cast<int64_t>(t);
        const std::byte* slice = task.cache.Slice(
            StepRows::KvBlock(task.cache, task.request, token / kPageTokens),
            kv_head);
        scores[t] = Dot(
            q, reinterpret_cast<const Kv*>(slice) + token % kPageTokens * dim,
            dim);
      }
    });
  });
}

// log of the sum of exp(scale * score), and of one more: kNoScore where there
// is none.
float LogSumExp(std::span<const float> scores, float scale,
                float other = kNoScore) {
  float greatest = other;
  if (!scores.empty()) {
    const float of_scores = std::ranges::max(scores) * scale;
    if (!(of_scores < other)) greatest = of_scores;  // NaN stays
  }
  if (greatest == kNoScore) return kNoScore;
  float sum = other == kNoScore ? 0.0f : std::exp(other - greatest);
  for (const float score : scores) sum += std::exp(score * scale - greatest);
  return greatest + std::log(sum);
}

// Whether the own partition, which has no row yet, is in the softmax.
bool HasOpenScore(const ScoreTask& task) {
  return task.program.open_scores_zero &&
         task.scored_tokens % task.program.block_tokens != 0;
}

// REQUIRES: count > 0.
template <Reduction kReduction>
float Reduce(const float* scores, int64_t count) {
  float result = scores[0];
  for (int64_t i = 1; i < count; ++i) {
    result = kReduction == Reduction::kMax ? std::max(result, scores[i])
                                           : result + scores[i];
  }
  return kReduction == Reduction::kMean ? result / static_cast<float>(count)
                                        : result;
}

// Each partition's score is that of pool.size rows, of those that there are.
template <Reduction kReduction>
void PoolRows(const RowPool& pool, std::span<const float> rows,
              std::span<float> partitions) {
  const int64_t num_rows = std::ssize(rows);
  const int64_t count = std::ssize(partitions);
  const auto pool_some = [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t at = b * pool.stride - pool.pad;
      const int64_t first = std::clamp<int64_t>(at, 0, num_rows);
      const int64_t num = std::min(at + pool.size, num_rows) - first;
      partitions[static_cast<size_t>(b)] =
          num > 0 ? Reduce<kReduction>(rows.data() + first, num) : kNoScore;
    }
  };
  // Nearly all have all of their rows.
  const int64_t begin =
      std::min<int64_t>((pool.pad + pool.stride - 1) / pool.stride, count);
  int64_t b = begin;
  int64_t at = b * pool.stride - pool.pad;
  for (; b < count && at + pool.size <= num_rows; ++b, at += pool.stride) {
    partitions[static_cast<size_t>(b)] =
        Reduce<kReduction>(rows.data() + at, pool.size);
  }
  pool_some(0, begin);
  pool_some(b, count);
  // A loop of vectors by itself.
  for (float& score : partitions) score = std::isnan(score) ? kNoScore : score;
}

void LeaveOut(std::span<const int32_t> rows, std::span<float> scores) {
  for (const int32_t row : rows) scores[static_cast<size_t>(row)] = kNoScore;
}

void RoundToBFloat16(std::span<float> scores) {
  for (float& score : scores) score = static_cast<float>(BFloat16(score));
}

}  // namespace

bool ReducesHeadsAlone(const SelectProgram& program) {
  return program.map == HeadMap::kNone && !program.rounds_to_bfloat16 &&
         IsOneRow(program.pool);
}

HeadRows HeadRowsOf(Reduction group, int num_heads) {
  return {.num_heads = num_heads,
          .takes_greatest = group == Reduction::kMax,
          .divisor =
              group == Reduction::kMean ? static_cast<float>(num_heads) : 1.0f};
}

std::span<const float> RowScores::Score(const ScoreTask& task, int64_t end) {
  const auto num_rows = static_cast<size_t>(
      NumVisibleRows(task.program.rows, task.scored_tokens));
  const int64_t block = task.program.block_tokens;
  CHECK(end >= 0 && (end - 1) * block < task.scored_tokens,
        "end={} scored={} block={}", end, task.scored_tokens, block);
  const auto num_partitions = static_cast<size_t>(end);
  if (task.raw.reduced_heads > 0 && num_partitions <= num_rows) {
    const int list =
        (task.first_head - task.raw.first_head) / task.raw.reduced_heads;
    return {task.raw.rows + static_cast<size_t>(list) * num_rows,
            num_partitions};
  }
  of_head_.resize(std::max(of_head_.size(), num_rows));
  rows_.resize(num_rows);
  FindEmpty(task);
  FindFixed(task);
  if (ReduceRawRows(task)) return {partitions_.data(), num_partitions};
  for (int head = task.first_head; head < task.end_head; ++head) {
    const std::span<float> scores = ScoreHead(task, head);
    LeaveOut(empty_, scores);
    LeaveOut(fixed_, scores);
    if (TakeInWeights(task, head, scores)) continue;
    TakeInHead(task, head, MapHead(task, head, scores));
  }
  if (task.program.group == Reduction::kMean) {
    const auto count = static_cast<float>(task.end_head - task.first_head);
    for (float& score : rows_) score /= count;
  }
  // Rounding keeps the order: the greatest of what is rounded is the greatest,
  // rounded.
  const bool rounds = task.program.rounds_to_bfloat16;
  const bool takes_greatest = task.program.pool.reduction == Reduction::kMax;
  if (rounds && !takes_greatest) RoundToBFloat16(rows_);
  Pool(task);
  if (rounds && takes_greatest) RoundToBFloat16(partitions_);
  for (const int32_t b : empty_) partitions_[static_cast<size_t>(b)] = kNoScore;
  return {partitions_.data(), num_partitions};
}

std::span<float> RowScores::ScoreHead(const ScoreTask& task, int head) {
  if (task.raw.rows != nullptr) {
    CHECK(task.raw.reduced_heads == 0, "reduced_heads={}",
          task.raw.reduced_heads);
    const auto first =
        static_cast<size_t>(head - task.raw.first_head) * rows_.size();
    return {task.raw.rows + first, rows_.size()};
  }
  const std::span<float> scores(of_head_.data(), rows_.size());
  switch (task.program.rows.kind) {
    case Kind::kNone:
      break;
    case Kind::kKeys:
      ScoreKeys(task, head, scores);
      break;
    case Kind::kMean:
    case Kind::kMinMax:
    case Kind::kCuboid:
    case Kind::kGate:
    case Kind::kClusters:
      ScoreRows(task, head, 0, scores);
      break;
  }
  return scores;
}

std::span<const float> RowScores::ScoreNormalizer(const ScoreTask& task,
                                                  int head) {
  const auto count = static_cast<size_t>(
      NumVisibleRows(task.program.normalizer, task.scored_tokens));
  if (task.raw.normalizer != nullptr) {
    const auto first = static_cast<size_t>(head - task.raw.first_head) * count;
    return {task.raw.normalizer + first, count};
  }
  // They pass through the partitions' memory.
  partitions_.resize(count);
  ScoreRows(task, head, 1, partitions_);
  return partitions_;
}

void RowScores::FindFixed(const ScoreTask& task) {
  fixed_.clear();
  if (!task.fixed) return;
  const int64_t stride = task.program.rows.stride;
  const int64_t end = std::ssize(rows_) * stride;
  task.fixed.ForEachPage(PagesFor(end), [&](int64_t page, uint32_t tokens) {
    const int64_t first = page * kPageTokens;
    int64_t j = (first + stride - 1) / stride;
    for (; j * stride < std::min(first + kPageTokens, end); ++j) {
      if ((tokens >> (j * stride - first) & 1) != 0) {
        fixed_.push_back(static_cast<int32_t>(j));
      }
    }
  });
}

void RowScores::FindEmpty(const ScoreTask& task) {
  empty_.clear();
  const SummaryRows& rows = task.program.rows;
  if (rows.kind != Kind::kClusters) return;
  const int64_t num_segments = task.scored_tokens / rows.tokens;
  for (int64_t i = 0; i < num_segments; ++i) {
    const ClusterSegment segment = ClusterSegmentOf(
        task.summaries, rows, task.request, KvHeadOf(task, task.first_head), i);
    // Few segments have any: counting them first is a loop of vectors.
    int num_empty = segment.ends[0] == 0 ? 1 : 0;
    for (int c = 1; c < segment.num_clusters; ++c) {
      num_empty += segment.ends[c] == segment.ends[c - 1] ? 1 : 0;
    }
    for (int c = 0; num_empty > 0; ++c) {
      if (!segment.TokensOf(c).empty()) continue;
      empty_.push_back(static_cast<int32_t>(segment.first_row) + c);
      --num_empty;
    }
  }
}

bool RowScores::ReduceRawRows(const ScoreTask& task) {
  const RawScores& raw = task.raw;
  if (raw.rows == nullptr || task.fixed || !empty_.empty() ||
      !ReducesHeadsAlone(task.program)) {
    return false;
  }
  const int64_t block = task.program.block_tokens;
  partitions_.resize(
      static_cast<size_t>((task.scored_tokens + block - 1) / block));
  const auto num_rows = std::ssize(rows_);
  const int64_t count = std::min(num_rows, std::ssize(partitions_));
  const int heads_a_row = std::max(raw.reduced_heads, 1);
  HeadRows of = HeadRowsOf(task.program.group,
                           (task.end_head - task.first_head) / heads_a_row);
  of.scores =
      raw.rows + (task.first_head - raw.first_head) / heads_a_row * num_rows;
  of.stride = num_rows;
  of.count = count;
  reduce_heads_(of, partitions_.data());
  std::fill(partitions_.begin() + count, partitions_.end(), kNoScore);
  return true;
}

bool RowScores::TakeInWeights(const ScoreTask& task, int head,
                              std::span<const float> scores) {
  const SelectProgram& program = task.program;
  if (softmax_scores_ == nullptr || program.map == HeadMap::kNone ||
      !(task.scale > 0)) {
    return false;
  }
  const bool is_softmax = program.map == HeadMap::kSoftmax;
  std::span<const float> normalizer;
  if (!is_softmax) {
    normalizer = ScoreNormalizer(task, head);
    if (normalizer.empty()) return false;  // All weights are 0.
  }
  using To = HeadScores::To;
  const To later = program.group == Reduction::kMax ? To::kGreatest : To::kSums;
  return softmax_scores_(
      {.scores = scores.data(),
       .count = std::ssize(scores),
       .normalizer = is_softmax ? nullptr : normalizer.data(),
       .num_normalizer = std::ssize(normalizer),
       .scale = task.scale,
       .other = is_softmax && HasOpenScore(task) ? 0.0f : kNoScore,
       .to = head == task.first_head ? To::kRows : later,
       .rows = rows_.data(),
       .weights = of_head_.data()});
}

std::span<const float> RowScores::MapHead(const ScoreTask& task, int head,
                                          std::span<const float> scores) {
  float lse = 0;
  switch (task.program.map) {
    case HeadMap::kNone:
      return scores;
    case HeadMap::kSoftmax:
      lse = LogSumExp(scores, task.scale, HasOpenScore(task) ? 0.0f : kNoScore);
      break;
    case HeadMap::kExpMinusLse:
      lse = LogSumExp(ScoreNormalizer(task, head), task.scale);
      break;
  }
  for (size_t j = 0; j < scores.size(); ++j) {
    of_head_[j] =
        lse == kNoScore ? 0.0f : std::exp(scores[j] * task.scale - lse);
  }
  return {of_head_.data(), scores.size()};
}

void RowScores::TakeInHead(const ScoreTask& task, int head,
                           std::span<const float> scores) {
  if (head == task.first_head) {
    std::ranges::copy(scores, rows_.begin());
    return;
  }
  if (task.program.group == Reduction::kMax) {
    for (size_t j = 0; j < scores.size(); ++j) {
      rows_[j] = std::max(rows_[j], scores[j]);
    }
  } else {
    for (size_t j = 0; j < scores.size(); ++j) rows_[j] += scores[j];
  }
}

void RowScores::Pool(const ScoreTask& task) {
  const RowPool& pool = task.program.pool;
  const int64_t block = task.program.block_tokens;
  partitions_.resize(
      static_cast<size_t>((task.scored_tokens + block - 1) / block));
  if (IsOneRow(pool)) {
    const size_t count = std::min(rows_.size(), partitions_.size());
    for (size_t b = 0; b < count; ++b) {
      partitions_[b] = std::isnan(rows_[b]) ? kNoScore : rows_[b];
    }
    std::fill(partitions_.begin() + static_cast<std::ptrdiff_t>(count),
              partitions_.end(), kNoScore);
    return;
  }
  switch (pool.reduction) {
    case Reduction::kMean:
      return PoolRows<Reduction::kMean>(pool, rows_, partitions_);
    case Reduction::kMax:
      return PoolRows<Reduction::kMax>(pool, rows_, partitions_);
    case Reduction::kSum:
      return PoolRows<Reduction::kSum>(pool, rows_, partitions_);
  }
}

}  // namespace winnow
