#include "backend/cpu/select/summarize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/isa/float_types.h"
#include "backend/cpu/select/gate.h"
#include "backend/cpu/select/key_run.h"
#include "backend/cpu/select/summary_row.h"
#include "backend/cpu/step_rows.h"

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

template <typename Kv, typename Row>
void WriteMean(const KeyRun<Kv>& keys, Row* row) {
  Channels sum;
  std::fill_n(sum.begin(), keys.cache.format.k_dim, 0.0f);
  keys.ForEach([&](size_t c, float x) { sum[c] += x; });
  for (int c = 0; c < keys.cache.format.k_dim; ++c) {
    row[c] = Row(sum[static_cast<size_t>(c)] / static_cast<float>(keys.count));
  }
}

template <typename Kv>
void Bounds(const KeyRun<Kv>& keys, Channels& least, Channels& greatest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::fill_n(least.begin(), keys.cache.format.k_dim, kInfinity);
  std::fill_n(greatest.begin(), keys.cache.format.k_dim, -kInfinity);
  keys.ForEach([&](size_t c, float x) {
    least[c] = std::min(least[c], x);
    greatest[c] = std::max(greatest[c], x);
  });
}

template <typename Kv, typename Row>
void WriteMinMax(const KeyRun<Kv>& keys, Row* row) {
  Channels least, greatest;
  Bounds(keys, least, greatest);
  const int k_dim = keys.cache.format.k_dim;
  for (int c = 0; c < k_dim; ++c) {
    row[c] = Row(least[static_cast<size_t>(c)]);
    row[k_dim + c] = Row(greatest[static_cast<size_t>(c)]);
  }
}

template <typename Kv, typename Row>
void WriteCuboid(const KeyRun<Kv>& keys, Row* row) {
  Channels least, greatest, distance;
  Bounds(keys, least, greatest);
  const int k_dim = keys.cache.format.k_dim;
  const auto centre = [&](size_t c) { return (least[c] + greatest[c]) * 0.5f; };
  std::fill_n(distance.begin(), k_dim, 0.0f);
  keys.ForEach(
      [&](size_t c, float x) { distance[c] += std::abs(centre(c) - x); });
  for (int i = 0; i < k_dim; ++i) {
    const auto c = static_cast<size_t>(i);
    const float radius = distance[c] / static_cast<float>(keys.count);
    row[i] = Row(centre(c) - radius);
    row[k_dim + i] = Row(centre(c) + radius);
  }
}

template <typename Kv, typename Row>
void WriteRow(const KeyRun<Kv>& keys, Kind kind, Row* row) {
  switch (kind) {
    case Kind::kMean:
      return WriteMean(keys, row);
    case Kind::kMinMax:
      return WriteMinMax(keys, row);
    case Kind::kCuboid:
      return WriteCuboid(keys, row);
    case Kind::kNone:
    case Kind::kKeys:
    case Kind::kGate:
    case Kind::kClusters:
      CHECK(false, "kind={} is no row of keys alone", static_cast<int>(kind));
  }
}

// One (request, head)'s rows of one level that the step completes.
struct LevelTask {
  const SummaryRows& rows;
  const LayerSelector& selector;
  const SummarizeArgs& args;
  int level = 0;
  int request = 0;
  int head = 0;
  int64_t begin_token = 0;  // rows end in [begin_token, end_token)
  int64_t end_token = 0;
};

HeadGate GateOf(const LevelTask& task) {
  const SummarizeArgs& args = task.args;
  CHECK(!args.inverse_frequencies.empty() && !args.rope_scale.empty(),
        "gates turn keys back: inverse_frequencies {}",
        ToString(args.inverse_frequencies));
  return {.weights = task.selector.gate,
          .head = task.head,
          .frequencies = args.inverse_frequencies.Row<float>(task.request),
          .half_dim = static_cast<int>(args.inverse_frequencies.dim(1)),
          .rope_scale = args.rope_scale.As<float>()[task.request]};
}

template <typename Kv, typename Row>
void CloseRows(const LevelTask& task, const LayerCache& cache) {
  const int64_t end = NumVisibleRows(task.rows, task.end_token);
  for (int64_t j = NumVisibleRows(task.rows, task.begin_token); j < end; ++j) {
    const KeyRun<Kv> keys = {cache, task.request, task.head,
                             j * task.rows.stride, task.rows.tokens};
    std::byte* row =
        task.selector.summaries.Row(task.request, task.head, task.level, j);
    if constexpr (std::is_same_v<Row, Float8E4M3>) {
      const bool is_mean = task.rows.kind == Kind::kMean;
      const auto width =
          static_cast<size_t>(cache.format.k_dim * (is_mean ? 1 : 2));
      std::array<float, 2 * kMaxKeyDim> numbers;
      WriteRow(keys, task.rows.kind, numbers.data());
      WriteFloat8Row(std::span(numbers).first(width),
                     task.rows.kind == Kind::kMinMax, row);
    } else if (task.rows.kind == Kind::kGate) {
      Channels key;
      MakeGateKey(keys, GateOf(task), key);
      for (int c = 0; c < cache.format.k_dim; ++c) {
        reinterpret_cast<Row*>(row)[c] = Row(key[static_cast<size_t>(c)]);
      }
    } else {
      WriteRow(keys, task.rows.kind, reinterpret_cast<Row*>(row));
    }
  }
}

void CloseLevel(const LevelTask& task, const LayerCache& cache) {
  if (task.rows.kind == Kind::kNone || task.rows.kind == Kind::kKeys ||
      task.rows.kind == Kind::kClusters) {
    return;
  }
  WithFloatType(cache.format.k, [&](auto kv) {
    if (task.rows.dtype == Dtype::kFloat8E4M3) {
      return CloseRows<decltype(kv), Float8E4M3>(task, cache);
    }
    WithFloatType(task.rows.dtype, [&](auto row) {
      CloseRows<decltype(kv), decltype(row)>(task, cache);
    });
  });
}

// Tokens of one request and KV head that a worker takes on at a time: a chunk
// of a prompt keeps all of them busy.
constexpr int64_t kItemTokens = 512;

// Of one request: rows end in [begin, end); none where nothing selects for it.
struct TokenRange {
  int64_t begin = 0;
  int64_t end = 0;
};

TokenRange NewTokens(const StepRows& rows, const SummarizeArgs& args,
                     int request) {
  const int index = rows.selector(request);
  if (index < 0 ||
      args.selectors[static_cast<size_t>(index)].program == nullptr) {
    return {};
  }
  return {args.first_token.As<int32_t>()[request],
          int64_t{rows.first_position(request)} + rows.num_tokens(request)};
}

}  // namespace

void SummarizeRows(const LayerStep& step, const SummarizeArgs& args,
                   const LayerCache& cache, ThreadPool& pool) {
  CHECK(cache.format.k_dim <= kMaxKeyDim, "k_dim={} limit={}",
        cache.format.k_dim, kMaxKeyDim);
  const StepRows rows(step);
  int64_t num_pieces = 0;  // of the request with the most tokens
  for (int request = 0; request < step.num_requests; ++request) {
    const TokenRange tokens = NewTokens(rows, args, request);
    num_pieces =
        std::max(num_pieces,
                 (tokens.end - tokens.begin + kItemTokens - 1) / kItemTokens);
  }
  const int64_t num_heads = cache.num_kv_heads;
  pool.ParallelFor(
      step.num_requests * num_pieces * num_heads, [&](int64_t item, int) {
        const int request = static_cast<int>(item / num_heads / num_pieces);
        const TokenRange tokens = NewTokens(rows, args, request);
        const int64_t begin =
            tokens.begin + item / num_heads % num_pieces * kItemTokens;
        if (begin >= tokens.end) return;
        const LayerSelector& selector =
            args.selectors[static_cast<size_t>(rows.selector(request))];
        for (int level = 0; level < 2; ++level) {
          CloseLevel({.rows = level == 0 ? selector.program->rows
                                         : selector.program->normalizer,
                      .selector = selector,
                      .args = args,
                      .level = level,
                      .request = request,
                      .head = static_cast<int>(item % num_heads),
                      .begin_token = begin,
                      .end_token = std::min(begin + kItemTokens, tokens.end)},
                     cache);
        }
      });
}

}  // namespace winnow
