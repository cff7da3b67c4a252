// What is decided when more run than the device pool has room for: how much a
// request is expected to need, who is preempted, how he comes back. Pure.
#ifndef WINNOW_ENGINE_SCHEDULE_PREEMPTION_H_
#define WINNOW_ENGINE_SCHEDULE_PREEMPTION_H_

#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "engine/schedule/scheduler.h"

namespace winnow {

// How much requests have generated that came to their end by themselves.
struct OutputHistory {
  int64_t num_requests = 0;
  int64_t num_tokens = 0;
};

// What a request is expected to generate in all: the mean so far (before any
// has ended, kUnknownOutput), and a page more than it has generated at least;
// never more than it may.
inline constexpr int kUnknownOutput = 256;
int ExpectedOutput(const OutputHistory& history, int max_tokens,
                   int num_generated);

// Who is preempted where a running sequence lacks a page: of those that run the
// one whose turn is last (TurnOrder), among equals the youngest; nobody where
// only one is left. Prefixes never do, as what is held for their forks is
// promised, nor does who is layerwise, as its longest life is. So the first
// goes on, and as it fits the pool beside all prefixes (Admission), it ends.
// `sequences` in order of arrival.
std::optional<SequenceId> PreemptionVictim(
    std::span<const SequenceSnapshot> sequences);

}  // namespace winnow

#endif  // WINNOW_ENGINE_SCHEDULE_PREEMPTION_H_
