#include "backend/select_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

constexpr double kFloatSlack = 3e-6;      // of the sum of absolute terms
constexpr double kBFloat16Step = 0x1p-8;  // half a unit in the last place

double StepOf(Dtype dtype) {
  if (dtype == Dtype::kBFloat16) return kBFloat16Step;
  return dtype == Dtype::kFloat16 ? 0x1p-11 : 0x1p-24;
}

// One head's view of the keys.
struct HeadKeys {
  const SparseCase& sparse;
  size_t request;
  int64_t row;
  int head;

  double Query(int c) const { return sparse.q.at(row, head, c); }
  double Key(int64_t token, int c) const {
    const int group = sparse.paged.shape().group_heads;
    return sparse.paged.keys(request).at(token, head / group, c);
  }
};

// Channel c of the row's summary: mean, least, greatest, mean distance from
// the middle.
struct Channel {
  double mean = 0, least = 0, greatest = 0, distance = 0;
};

Channel Summary(const HeadKeys& keys, const SummaryRows& rows, int64_t j,
                int c) {
  Channel channel;
  channel.least = std::numeric_limits<double>::infinity();
  channel.greatest = -channel.least;
  for (int t = 0; t < rows.tokens; ++t) {
    const double key = keys.Key(j * rows.stride + t, c);
    channel.mean += key / rows.tokens;
    channel.least = std::min(channel.least, key);
    channel.greatest = std::max(channel.greatest, key);
  }
  const double centre = (channel.least + channel.greatest) / 2;
  for (int t = 0; t < rows.tokens; ++t) {
    channel.distance +=
        std::abs(keys.Key(j * rows.stride + t, c) - centre) / rows.tokens;
  }
  return channel;
}

// The raw score of row j.
BoundedScore RawScore(const HeadKeys& keys, const SummaryRows& rows,
                      int64_t j) {
  double value = 0, magnitude = 0;
  for (int c = 0; c < keys.sparse.paged.shape().k_dim; ++c) {
    const double q = keys.Query(c);
    const Channel s = Summary(keys, rows, j, c);
    double low = s.mean, high = s.mean;
    if (rows.kind == Kind::kMinMax) low = s.least, high = s.greatest;
    if (rows.kind == Kind::kCuboid) {
      low = (s.least + s.greatest) / 2 - s.distance;
      high = (s.least + s.greatest) / 2 + s.distance;
    }
    value += std::max(q * low, q * high);
    magnitude += std::abs(q) * (std::abs(s.least) + std::abs(s.greatest));
  }
  return {value, magnitude * (kFloatSlack + StepOf(rows.dtype))};
}

std::vector<BoundedScore> RawScores(const HeadKeys& keys,
                                    const SummaryRows& rows, int64_t context) {
  std::vector<BoundedScore> scores;
  for (int64_t j = 0; j < NumVisibleRows(rows, context); ++j) {
    scores.push_back(RawScore(keys, rows, j));
  }
  return scores;
}

// log sum exp(scale * score), and its slack.
BoundedScore LogSumExp(const std::vector<BoundedScore>& scores, double scale) {
  double greatest = -std::numeric_limits<double>::infinity(), sum = 0,
         slack = 0;
  for (const auto& s : scores) greatest = std::max(greatest, s.value * scale);
  for (const auto& s : scores) {
    sum += std::exp(s.value * scale - greatest);
    slack = std::max(slack, s.slack * scale);
  }
  return {greatest + std::log(sum), slack + 1e-6 * (1 + std::abs(greatest))};
}

void MapHead(const HeadKeys& keys, const SelectProgram& program,
             int64_t context, std::vector<BoundedScore>& scores) {
  if (program.map == HeadMap::kNone || scores.empty()) return;
  const double scale = keys.sparse.scale;
  std::vector<BoundedScore> of_normalizer = scores;
  if (program.map == HeadMap::kExpMinusLse) {
    of_normalizer = RawScores(keys, program.normalizer, context);
  }
  if (of_normalizer.empty()) {
    for (auto& score : scores) score = {0, 0};
    return;
  }
  const BoundedScore lse = LogSumExp(of_normalizer, scale);
  for (auto& score : scores) {
    const double value = std::exp(score.value * scale - lse.value);
    const double off = score.slack * scale + lse.slack + 1e-6;
    score = {value, value * std::expm1(off) + 1e-37};
  }
}

BoundedScore Reduce(Reduction reduction, std::span<const BoundedScore> scores) {
  BoundedScore result = {reduction == Reduction::kMax
                             ? -std::numeric_limits<double>::infinity()
                             : 0.0,
                         0};
  double magnitude = 0;
  for (const auto& s : scores) {
    if (reduction == Reduction::kMax) {
      result.value = std::max(result.value, s.value);
      result.slack = std::max(result.slack, s.slack);
    } else {
      result.value += s.value;
      result.slack += s.slack;
      magnitude += std::abs(s.value);
    }
  }
  result.slack += kFloatSlack * magnitude;
  if (reduction == Reduction::kMean) {
    result.value /= static_cast<double>(scores.size());
    result.slack /= static_cast<double>(scores.size());
  }
  return result;
}

}  // namespace

std::vector<BoundedScore> OracleScores(const SparseCase& sparse,
                                       const SelectProgram& program,
                                       size_t request, int64_t row,
                                       int64_t context, int list) {
  const auto [first_head, end_head] = sparse.HeadsOf(program, list);
  std::vector<std::vector<BoundedScore>> heads;
  for (int head = first_head; head < end_head; ++head) {
    const HeadKeys keys = {sparse, request, row, head};
    heads.push_back(RawScores(keys, program.rows, context));
    MapHead(keys, program, context, heads.back());
  }
  std::vector<BoundedScore> rows;
  for (size_t j = 0; j < heads.front().size(); ++j) {
    std::vector<BoundedScore> of_row;
    for (const auto& head : heads) of_row.push_back(head[j]);
    rows.push_back(Reduce(program.group, of_row));
    if (program.rounds_to_bfloat16) {
      rows.back().slack += std::abs(rows.back().value) * kBFloat16Step;
    }
  }
  std::vector<BoundedScore> partitions;
  for (int64_t b = 0; b * program.block_tokens < context; ++b) {
    std::vector<BoundedScore> pooled;
    for (int i = 0; i < program.pool.size; ++i) {
      const int64_t j = b * program.pool.stride - program.pool.pad + i;
      if (j >= 0 && j < std::ssize(rows)) {
        pooled.push_back(rows[static_cast<size_t>(j)]);
      }
    }
    partitions.push_back(
        pooled.empty()
            ? BoundedScore{-std::numeric_limits<double>::infinity(), 0}
            : Reduce(program.pool.reduction, pooled));
  }
  return partitions;
}

std::vector<bool> OracleForced(const SelectProgram& program, int64_t context) {
  const int64_t block = program.block_tokens;
  const int64_t own_begin = (context - 1) / block * block;
  std::vector<bool> forced;
  for (int64_t begin = 0; begin < context; begin += block) {
    const bool sink = begin < program.forced.sink_tokens;
    const bool recent =
        begin + block > own_begin - program.forced.recent_tokens &&
        begin < own_begin;
    forced.push_back(sink || recent || begin == own_begin);
  }
  return forced;
}

}  // namespace winnow
