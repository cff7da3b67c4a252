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
  const int64_t num_chosen = blocks(program.forced.sink_tokens) +
                             blocks(program.forced.recent_tokens) + 1 +
                             program.budget.TokensOf(max_context) / block;
  const int64_t pages_each = std::max<int64_t>(1, block / kPageTokens);
  return std::min(PagesFor(max_context), num_chosen * pages_each);
}

void CheckProgram(const SelectProgram& program) {
  const SummaryRows& rows = program.rows;
  const int64_t block = program.block_tokens;
  CHECK(block > 0 && (block % kPageTokens == 0 || kPageTokens % block == 0),
        "block_tokens={} page_tokens={}", block, kPageTokens);
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
