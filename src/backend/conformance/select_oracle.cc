#include "backend/conformance/select_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/conformance/listed_tokens.h"

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

constexpr double kFloatSlack = 3e-6;      // of the sum of absolute terms
constexpr double kBFloat16Step = 0x1p-8;  // half a unit in the last place

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

// A channel of a row that is kept: what is multiplied with q's negative and
// positive part, and how far float32 sums may take its rounding.
struct KeptChannel {
  double low = 0, high = 0;
  double slack = 0;
};

// Rounds x to E4M3, of which `scale` is one: 3 bits behind the first one, steps
// of 2^-9 below 2^-6. Adds to `slack` where x is so near to the middle between
// two numbers that a float32 sum may lie on its other side.
double RoundToFloat8(double x, double scale, double (*round)(double),
                     double& slack) {
  constexpr double kLeastExponent = -6;
  const double exponent =
      x == 0 ? kLeastExponent
             : std::max(std::floor(std::log2(std::abs(x) / scale)),
                        kLeastExponent);
  const double step = std::exp2(exponent - 3) * scale;
  const double steps = x / step;
  const double from_middle = std::abs(steps - std::floor(steps) - 0.5);
  if (from_middle < 1e-4) slack += step;
  return round(steps) * step;
}

// The least power of two of which no channel has more than 448.
double ScaleOf(const std::vector<KeptChannel>& channels) {
  double greatest = 0;
  for (const KeptChannel& channel : channels) {
    greatest =
        std::max({greatest, std::abs(channel.low), std::abs(channel.high)});
  }
  return greatest == 0 ? 1 : std::exp2(std::ceil(std::log2(greatest / 448)));
}

void RoundRowToFloat8(Kind kind, std::vector<KeptChannel>& channels) {
  const double scale = ScaleOf(channels);
  const auto nearest = [](double x) { return std::nearbyint(x); };
  const auto down = [](double x) { return std::floor(x); };
  const auto up = [](double x) { return std::ceil(x); };
  for (KeptChannel& channel : channels) {
    double (*of_low)(double) = nearest;
    double (*of_high)(double) = nearest;
    double unused = 0;  // bounds are keys, which no sum has changed
    double& slack = kind == Kind::kMinMax ? unused : channel.slack;
    if (kind == Kind::kMinMax) of_low = down, of_high = up;
    channel.low = RoundToFloat8(channel.low, scale, of_low, slack);
    channel.high = RoundToFloat8(channel.high, scale, of_high, slack);
  }
}

// The raw score of row j.
BoundedScore RawScore(const HeadKeys& keys, const SummaryRows& rows,
                      int64_t j) {
  const int k_dim = keys.sparse.paged.shape().k_dim;
  std::vector<KeptChannel> channels(static_cast<size_t>(k_dim));
  double magnitude = 0;
  for (int c = 0; c < k_dim; ++c) {
    const Channel s = Summary(keys, rows, j, c);
    KeptChannel& kept = channels[static_cast<size_t>(c)];
    kept = {.low = s.mean, .high = s.mean};
    if (rows.kind == Kind::kMinMax) kept = {.low = s.least, .high = s.greatest};
    if (rows.kind == Kind::kCuboid) {
      kept.low = (s.least + s.greatest) / 2 - s.distance;
      kept.high = (s.least + s.greatest) / 2 + s.distance;
    }
    magnitude +=
        std::abs(keys.Query(c)) * (std::abs(s.least) + std::abs(s.greatest));
  }
  if (rows.dtype == Dtype::kFloat8E4M3) RoundRowToFloat8(rows.kind, channels);
  BoundedScore score = {0, magnitude * (kFloatSlack + HalfUnitOf(rows.dtype))};
  for (int c = 0; c < k_dim; ++c) {
    const KeptChannel& kept = channels[static_cast<size_t>(c)];
    const double q = keys.Query(c);
    score.value += std::max(q * kept.low, q * kept.high);
    score.slack += std::abs(q) * kept.slack;
  }
  return score;
}

std::vector<BoundedScore> SummaryScores(const HeadKeys& keys,
                                        const SummaryRows& rows,
                                        int64_t context) {
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
    of_normalizer = SummaryScores(keys, program.normalizer, context);
  }
  if (of_normalizer.empty()) {
    for (auto& score : scores) score = {0, 0};
    return;
  }
  const bool has_open =
      program.open_scores_zero && context % program.block_tokens != 0;
  if (has_open) of_normalizer.push_back({0, 0});
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

double HalfUnitOf(Dtype dtype) {
  if (dtype == Dtype::kBFloat16) return kBFloat16Step;
  return dtype == Dtype::kFloat16 ? 0x1p-11 : 0x1p-24;
}

std::vector<BoundedScore> OracleScores(const SparseCase& sparse,
                                       const SelectProgram& program,
                                       size_t request, int64_t row,
                                       int64_t context, int list) {
  const auto [first_head, end_head] = sparse.HeadsOf(program, list);
  std::vector<std::vector<BoundedScore>> heads;
  for (int head = first_head; head < end_head; ++head) {
    const HeadKeys keys = {sparse, request, row, head};
    heads.push_back(SummaryScores(keys, program.rows, context));
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

ListedPartitions ExpectPartitions(const SelectProgram& program, int64_t context,
                                  const std::vector<bool>& tokens) {
  const std::vector<bool> forced = OracleForced(program, context);
  ListedPartitions partitions;
  for (size_t b = 0; b < forced.size(); ++b) {
    const int64_t begin = static_cast<int64_t>(b) * program.block_tokens;
    const int64_t end = std::min(begin + program.block_tokens, context);
    const int64_t count =
        std::count(tokens.begin() + begin, tokens.begin() + end, true);
    EXPECT_TRUE(count == 0 || count == end - begin) << "partition " << b;
    if (forced[b]) {
      ++partitions.num_forced;
      EXPECT_GT(count, 0) << "forced partition " << b;
    } else {
      (count > 0 ? partitions.chosen : partitions.left).push_back(b);
    }
  }
  return partitions;
}

void ExpectBudget(const SelectProgram& program, int64_t context,
                  const ListedPartitions& partitions) {
  const int64_t tokens = program.budget.TokensOf(context);
  int64_t budget = tokens / program.block_tokens;
  if (tokens >= context) {
    budget = partitions.num_forced + std::ssize(partitions.chosen) +
             std::ssize(partitions.left);
  }
  if (program.forced.inside_budget) budget -= partitions.num_forced;
  const int64_t num_chosen = std::ssize(partitions.chosen);
  const int64_t num_free = num_chosen + std::ssize(partitions.left);
  EXPECT_EQ(num_chosen, std::clamp<int64_t>(budget, 0, num_free));
}

void ExpectBest(const ListedPartitions& partitions,
                std::span<const BoundedScore> scores) {
  if (partitions.chosen.empty() || partitions.left.empty()) return;
  const auto high = [&](size_t b) { return scores[b].value + scores[b].slack; };
  const auto low = [&](size_t b) { return scores[b].value - scores[b].slack; };
  const size_t worst = *std::ranges::min_element(partitions.chosen, {}, high);
  const size_t best = *std::ranges::max_element(partitions.left, {}, low);
  EXPECT_GE(high(worst), low(best))
      << "partition " << worst << " is chosen and not " << best;
}

void ExpectChoice(const SparseCase& sparse, const SelectProgram& program,
                  const RowList& of, const std::vector<Pick>& picks) {
  const ListedPartitions partitions =
      ExpectPartitions(program, of.context, TokensOf(picks, of.context));
  ExpectBudget(program, of.context, partitions);
  if (partitions.chosen.empty() || partitions.left.empty()) return;
  ExpectBest(partitions, OracleScores(sparse, program, of.request, of.row,
                                      of.context, of.list));
}

SparseCase ManySummariesCase(const KvShape& shape, int32_t context,
                             RandomSource& random) {
  SparseCase sparse(shape, {{context, 1, 0}}, random);
  SelectProgram program;
  program.scope = random.Among({Scope::kQHead, Scope::kKvHead});
  program.block_tokens = random.Among({1, 2, 4});
  const int block = program.block_tokens;
  program.rows = block == 1
                     ? SummaryRows{Kind::kKeys, 1, 1, shape.dtype}
                     : SummaryRows{random.Among({Kind::kMean, Kind::kMinMax}),
                                   block, block, shape.dtype};
  program.map = random.Among({HeadMap::kNone, HeadMap::kSoftmax});
  program.budget = {Amount::Unit::kTokens, 64};
  sparse.programs = {program};
  sparse.selectors = {0};
  sparse.prompt_tokens = {0};
  return sparse;
}

}  // namespace winnow
