// A scheduler's decisions as lines of text: enough to make each of them again.
#ifndef WINNOW_ENGINE_SCHEDULE_TRACE_H_
#define WINNOW_ENGINE_SCHEDULE_TRACE_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/scheduler.h"

namespace winnow {

// What PlanStep was given, and what it made of it.
struct RecordedSchedule {
  ScheduleInput input;
  Schedule schedule;
};

// One JSON object without an end of line:
//   {"limits":{...},"cost":{...},"admits":true,"repeated_pages":0,
//    "sequences":[{"id":1,"num_tokens":40,...},...],
//    "schedule":{"admitted":[1],...,"plan":[{"sequence":1,...},...]}}
// Fields are named as in scheduler.h; of a sequence or an item those that are
// as a new one has them are left out. Deadlines are, too: PlanStep does not
// look at them.
std::string ScheduleLine(const ScheduleInput& input, const Schedule& schedule);

// Of such a line. Fails with kCorrupt where it is none; what names no field is
// not looked at.
Result<RecordedSchedule> ParseScheduleLine(std::string_view line);

}  // namespace winnow

#endif  // WINNOW_ENGINE_SCHEDULE_TRACE_H_
