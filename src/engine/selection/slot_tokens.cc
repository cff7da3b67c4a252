#include "engine/selection/slot_tokens.h"

#include <algorithm>
#include <bit>

#include "base/ids.h"

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

// Keys that are scored themselves are read from whole pages.
bool MayHaveSlots(const Selector& selector) {
  return !selector.is_dense() && selector.program.rows.kind != Kind::kKeys &&
         selector.program.normalizer.kind != Kind::kKeys;
}

}  // namespace

std::optional<int> SlotTokensOf(const Selector& selector) {
  constexpr int kLeastTokens = 8;
  if (!MayHaveSlots(selector)) return std::nullopt;
  const SelectProgram& program = selector.program;
  if (program.rows.kind == Kind::kClusters) return kLeastTokens;
  const auto block = static_cast<unsigned>(program.block_tokens);
  return std::clamp(static_cast<int>(std::bit_floor(block)), kLeastTokens,
                    kPageTokens);
}

}  // namespace winnow
