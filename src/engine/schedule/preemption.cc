#include "engine/schedule/preemption.h"

#include <algorithm>

#include "base/check.h"

namespace winnow {

int ExpectedOutput(const OutputHistory& history, int max_tokens,
                   int num_generated) {
  const int64_t mean = history.num_requests > 0
                           ? history.num_tokens / history.num_requests
                           : kUnknownOutput;
  const int64_t expected = std::max(mean, int64_t{num_generated} + kPageTokens);
  return static_cast<int>(std::min<int64_t>(expected, max_tokens));
}

std::optional<SequenceId> PreemptionVictim(
    std::span<const SequenceSnapshot> sequences) {
  std::optional<SequenceId> last;
  int num_running = 0;
  for (const size_t i : TurnOrder(sequences)) {
    if (!sequences[i].admitted || sequences[i].is_prefix() ||
        sequences[i].layerwise) {
      continue;
    }
    last = sequences[i].id;
    ++num_running;
  }
  return num_running > 1 ? last : std::nullopt;
}

}  // namespace winnow
