#include "engine/schedule/decision.h"

#include <algorithm>
#include <set>

namespace winnow {
namespace {

struct Again {
  Decision operator()(const ScheduleDecision& made) const {
    return ScheduleDecision{made.input, PlanStep(made.input)};
  }
  Decision operator()(const VictimDecision& made) const {
    return VictimDecision{made.sequences, PreemptionVictim(made.sequences)};
  }
  Decision operator()(const ExpiryDecision& made) const {
    return ExpiryDecision{made.sequences, made.now,
                          ExpiredSequences(made.sequences, made.now)};
  }
};

struct Shorten {
  // Nobody is admitted behind the first who is not, but forks.
  void operator()(ScheduleDecision& made) const {
    std::vector<SequenceSnapshot>& sequences = made.input.sequences;
    const Schedule& schedule = made.schedule;
    std::set<SequenceId> named(schedule.admitted.begin(),
                               schedule.admitted.end());
    named.insert(schedule.overtaken.begin(), schedule.overtaken.end());
    const auto waits = [](const SequenceSnapshot& sequence) {
      return !sequence.admitted && !sequence.prefix && !sequence.is_prefix();
    };
    if (made.input.admits) {
      for (const size_t i : TurnOrder(sequences)) {
        if (!waits(sequences[i]) || named.contains(sequences[i].id)) continue;
        named.insert(sequences[i].id);
        break;
      }
    }
    std::erase_if(sequences, [&](const SequenceSnapshot& sequence) {
      return waits(sequence) && !named.contains(sequence.id);
    });
  }
  void operator()(VictimDecision& made) const {
    std::erase_if(made.sequences,
                  [](const auto& sequence) { return !sequence.admitted; });
  }
  void operator()(ExpiryDecision& made) const {
    std::erase_if(made.sequences,
                  [](const auto& sequence) { return !sequence.deadline; });
  }
};

}  // namespace

Decision DecideAgain(const Decision& decision) {
  return std::visit(Again(), decision);
}

Decision LookedAt(Decision decision) {
  std::visit(Shorten(), decision);
  return decision;
}

}  // namespace winnow
