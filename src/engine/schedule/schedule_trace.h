// A scheduler's decisions as lines of text: enough to make each of them again.
#ifndef WINNOW_ENGINE_SCHEDULE_SCHEDULE_TRACE_H_
#define WINNOW_ENGINE_SCHEDULE_SCHEDULE_TRACE_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/schedule/decision.h"

namespace winnow {

// Of a line; lines of another are not read, as what is not in them would be
// guessed.
inline constexpr int kScheduleTraceFormat = 3;

// One JSON object without an end of line, of what the decision looked at
// (LookedAt):
//   {"format":3,"decision":"schedule",
//    "sequences":[{"id":1,"num_tokens":40,...},...],"admits":true,
//    "repeated_pages":0,"num_segments":[],"limits":{...},"cost":{...},
//    "schedule":{"plan":[{"sequence":1,...},...],"admitted":[1],...}}
//   {"format":3,"decision":"victim","sequences":[{"id":1,...},...],"victim":7}
//   {"format":3,"decision":"expiry","sequences":[{"id":1,"left_ns":-5},...],
//    "expired":[1]}
// Fields are named as in scheduler.h. Limits and cost are whole; of a sequence
// or an item those fields that are as a new one has them are left out, and
// those at which the decision does not look. left_ns: of a deadline, then.
std::string DecisionLine(const Decision& decision);

// Of such a line. Fails with kCorrupt where it is none, or of another format;
// the error names the field. What names no field is not looked at.
Result<Decision> ParseDecisionLine(std::string_view line);

// Of lines. The error names the line, from 1, and the field.
Result<std::vector<Decision>> ParseScheduleTrace(std::string_view text);

}  // namespace winnow

#endif  // WINNOW_ENGINE_SCHEDULE_SCHEDULE_TRACE_H_
