// What tests of decisions have in common: sequences as they are seen.
#ifndef WINNOW_ENGINE_SCHEDULE_SNAPSHOT_CASE_H_
#define WINNOW_ENGINE_SCHEDULE_SNAPSHOT_CASE_H_

#include "engine/schedule/scheduler.h"

namespace winnow {

inline SequenceSnapshot Running(uint64_t id, int num_tokens, int num_computed) {
  return {.id = SequenceId(id),
          .num_tokens = num_tokens,
          .num_computed = num_computed,
          .admitted = true,
          .life_pages = 1};
}

}  // namespace winnow

#endif  // WINNOW_ENGINE_SCHEDULE_SNAPSHOT_CASE_H_
