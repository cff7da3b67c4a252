#include "backend/contract/select_program.h"

#include <algorithm>

#include "base/check.h"
#include "base/ids.h"

namespace winnow {

SelectProgram WithBudgetTimes(const SelectProgram& program, double times) {
  SelectProgram more = program;
  more.budget.value *= times;
  return more;
}

int64_t MaxPicks(const SelectProgram& program, int64_t max_context) {
  const int64_t block = program.block_tokens;
  const auto blocks = [&](int64_t tokens) {
    return (tokens + block - 1) / block;
  };
  // What is generated is read for good; all may be above a threshold, and the
  // tokens of a cluster lie anywhere.
  if (program.fixed.kind != FixedChoice::Kind::kNone ||
      program.rule == Rule::kThreshold ||
      program.rows.kind == SummaryRows::Kind::kClusters) {
    return PagesFor(max_context);
  }
  const int64_t num_chosen = blocks(program.forced.sink_tokens) +
                             blocks(program.forced.recent_tokens) + 1 +
                             program.budget.TokensOf(max_context) / block;
  const int64_t pages_each = std::max<int64_t>(1, block / kPageTokens);
  return std::min(PagesFor(max_context), num_chosen * pages_each);
}

int64_t MaxEstimates(const SelectProgram& program, int64_t max_context) {
  if (program.rows.kind != SummaryRows::Kind::kClusters) return 0;
  return std::min(
      max_context / program.rows.stride,
      program.estimate.TokensOf(max_context) / program.block_tokens);
}

int64_t NumClusteredTokens(const SelectProgram& program, int64_t context) {
  const int64_t segment = program.rows.tokens;
  const int64_t end = context - 1 - program.forced.recent_tokens;
  return std::max<int64_t>(end, 0) / segment * segment;
}

std::string_view SelectFeatureName(SelectFeature feature) {
  switch (feature) {
    case SelectFeature::kFixedChoice:
      return "a choice that is made once";
    case SelectFeature::kFloat8Rows:
      return "summaries in fp8";
    case SelectFeature::kGate:
      return "learned gates";
    case SelectFeature::kClusters:
      return "clusters of tokens";
    case SelectFeature::kNextRanks:
      return "next ranks";
    case SelectFeature::kScores:
      return "scores of tokens";
  }
  CHECK(false, "feature={}", static_cast<uint32_t>(feature));
}

uint32_t FeaturesOf(const SelectProgram& program) {
  uint32_t features = 0;
  const auto add = [&features](bool asks, SelectFeature feature) {
    if (asks) features |= static_cast<uint32_t>(feature);
  };
  add(program.fixed.kind != FixedChoice::Kind::kNone,
      SelectFeature::kFixedChoice);
  add(program.rows.dtype == Dtype::kFloat8E4M3 ||
          program.normalizer.dtype == Dtype::kFloat8E4M3,
      SelectFeature::kFloat8Rows);
  add(program.rows.kind == SummaryRows::Kind::kGate, SelectFeature::kGate);
  add(program.rows.kind == SummaryRows::Kind::kClusters,
      SelectFeature::kClusters);
  return features;
}

bool BelongsToPrompt(const SelectProgram& program) {
  return program.in_prompt ||
         program.fixed.kind == FixedChoice::Kind::kObserved;
}

void CheckProgram(const SelectProgram& program) {
  const SummaryRows& rows = program.rows;
  const int64_t block = program.block_tokens;
  CHECK(block > 0 && (block % kPageTokens == 0 || kPageTokens % block == 0),
        "block_tokens={} page_tokens={}", block, kPageTokens);
  const FixedChoice& fixed = program.fixed;
  CHECK(fixed.kind == FixedChoice::Kind::kNone ||
            (kPageTokens % block == 0 && program.scope != Scope::kLayer),
        "block_tokens={} scope={}", block, static_cast<int>(program.scope));
  CHECK(fixed.kind != FixedChoice::Kind::kObserved ||
            (block == 1 && fixed.window_tokens > 0 &&
             program.forced.recent_tokens == fixed.window_tokens),
        "block_tokens={} window_tokens={} recent_tokens={}", block,
        fixed.window_tokens, program.forced.recent_tokens);
  CHECK(fixed.kind != FixedChoice::Kind::kOutliers ||
            (rows.kind == SummaryRows::Kind::kMean && rows.tokens == block &&
             program.scope == Scope::kKvHead),
        "rows={} of {} tokens, scope={}", static_cast<int>(rows.kind),
        rows.tokens, static_cast<int>(program.scope));
  if (rows.kind == SummaryRows::Kind::kNone) return;
  CHECK(rows.stride > 0 && rows.tokens % rows.stride == 0,
        "tokens={} stride={}", rows.tokens, rows.stride);
  CHECK(int64_t{program.pool.stride} * rows.stride == block,
        "a partition is {} rows of stride {}, and not {} tokens",
        program.pool.stride, rows.stride, block);
  CHECK(program.pool.size > 0 && program.pool.pad >= 0, "size={} pad={}",
        program.pool.size, program.pool.pad);
  CHECK(rows.kind != SummaryRows::Kind::kGate ||
            (rows.tokens == block && rows.stride == block &&
             program.scope == Scope::kKvHead),
        "gates: rows of {} every {} of {} tokens, scope={}", rows.tokens,
        rows.stride, block, static_cast<int>(program.scope));
  const bool clusters = rows.kind == SummaryRows::Kind::kClusters;
  CHECK(program.rule != Rule::kThreshold ||
            (fixed.kind == FixedChoice::Kind::kNone && !clusters),
        "threshold={} rows={} fixed={}", program.threshold,
        static_cast<int>(rows.kind), static_cast<int>(fixed.kind));
  CHECK(clusters ||
            (program.rule != Rule::kTokens && program.estimate.value == 0),
        "rule={} estimate={} without clusters", static_cast<int>(program.rule),
        program.estimate.value);
  CHECK(!clusters || (rows.stride == block && block <= kPageTokens &&
                      rows.tokens % kPageTokens == 0 && !program.in_prompt &&
                      rows.dtype != Dtype::kFloat8E4M3 &&
                      fixed.kind == FixedChoice::Kind::kNone),
        "clusters: {} of a segment's {} tokens, block_tokens={}", rows.stride,
        rows.tokens, block);
  CHECK(!clusters || program.scope != Scope::kLayer, "clusters of {} heads",
        "all");
  CHECK(program.map != HeadMap::kExpMinusLse ||
            program.normalizer.kind == SummaryRows::Kind::kMean,
        "normalizer={}", static_cast<int>(program.normalizer.kind));
}

}  // namespace winnow
