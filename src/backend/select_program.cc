#include "backend/select_program.h"

#include <algorithm>

#include "base/check.h"
#include "base/ids.h"

namespace winnow {

int64_t MaxPicks(const SelectProgram& program, int64_t max_context) {
  const int64_t block = program.block_tokens;
  const auto blocks = [&](int64_t tokens) {
    return (tokens + block - 1) / block;
  };
  // What is generated is read for good.
  if (program.fixed.kind != FixedChoice::Kind::kNone) {
    return PagesFor(max_context);
  }
  const int64_t num_chosen = blocks(program.forced.sink_tokens) +
                             blocks(program.forced.recent_tokens) + 1 +
                             program.budget.TokensOf(max_context) / block;
  const int64_t pages_each = std::max<int64_t>(1, block / kPageTokens);
  return std::min(PagesFor(max_context), num_chosen * pages_each);
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
  CHECK(program.map != HeadMap::kExpMinusLse ||
            program.normalizer.kind == SummaryRows::Kind::kMean,
        "normalizer={}", static_cast<int>(program.normalizer.kind));
}

}  // namespace winnow
