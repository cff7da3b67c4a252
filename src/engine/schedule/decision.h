// What is decided from snapshots, with what it was decided from: plain data,
// enough to decide it again.
#ifndef WINNOW_ENGINE_SCHEDULE_DECISION_H_
#define WINNOW_ENGINE_SCHEDULE_DECISION_H_

#include <chrono>
#include <optional>
#include <variant>
#include <vector>

#include "engine/schedule/preemption.h"
#include "engine/schedule/scheduler.h"

namespace winnow {

// Who runs next: PlanStep.
struct ScheduleDecision {
  ScheduleInput input;
  Schedule schedule;
};

// Who is preempted: PreemptionVictim.
struct VictimDecision {
  std::vector<SequenceSnapshot> sequences;
  std::optional<SequenceId> victim;
};

// Who is late: ExpiredSequences.
struct ExpiryDecision {
  std::vector<SequenceSnapshot> sequences;
  std::chrono::steady_clock::time_point now;
  std::vector<SequenceId> expired;
};

using Decision = std::variant<ScheduleDecision, VictimDecision, ExpiryDecision>;

// From the same, by the functions above.
Decision DecideAgain(const Decision& decision);

// The decision without the sequences that it did not look at, so that what is
// kept of it does not grow with those that wait: of a schedule those that wait
// behind the first whose turn it is, unless it names them, or they are prefixes
// or forks of one; of a victim who does not run; of who is late who has no
// deadline. From the rest the same is decided.
Decision LookedAt(Decision decision);

}  // namespace winnow

#endif  // WINNOW_ENGINE_SCHEDULE_DECISION_H_
