// TaskCursor: the decode rows of an Attend, cut into rows that read alike.
#ifndef WINNOW_BACKEND_CPU_ATTEND_UNIT_TASKS_H_
#define WINNOW_BACKEND_CPU_ATTEND_UNIT_TASKS_H_

#include "backend/cpu/isa/vector_attend.h"

namespace winnow {

// How many picks a unit of a list has: kUnitPicks; where those in the list's
// middle lie scattered, as many as are packed together (packed_keys.h).
int UnitPicks(std::span<const Pick> list);

// Rows, and the units that they see: [first_unit, end_unit).
struct UnitTask {
  AttendRows rows;
  int first_unit = 0;
  int end_unit = 0;
};

// Walks over the tasks of a step, in the order of requests. Where everything
// is read, tokens share a task as far as its lanes go; where lists are read, a
// task is one token with the heads of one list.
class TaskCursor {
 public:
  explicit TaskCursor(const AttendJob& job);

  // False where there is no further task.
  bool Next(UnitTask& task);

 private:
  void StartRequest();
  void SetUnits(UnitTask& task) const;
  // How many heads of the group from `head_` on read alike.
  int NumHeads() const;
  void Advance(int num_heads);

  const AttendJob& job_;
  const int num_tokens_;  // of a task
  int request_ = -1;
  int64_t row_ = 0;      // of the step
  int64_t end_row_ = 0;  // of the request's rows that are read
  int kv_head_ = 0;
  int head_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_UNIT_TASKS_H_
