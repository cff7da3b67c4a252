// Which clusters a list reads, and which it estimates.
#ifndef WINNOW_BACKEND_CPU_CLUSTER_CHOICE_H_
#define WINNOW_BACKEND_CPU_CLUSTER_CHOICE_H_

#include "backend/cpu/row_choice.h"

namespace winnow {

// True where scores decide for a row at position `context - 1`.
bool ClustersNeedScores(const SelectProgram& program, int64_t context);

// Writes list `list` of the task's row: its picks, whose number is returned,
// and its estimates. Sinks, and what lies behind the clustered segments, are
// read whatever the scores. REQUIRES: the program's rows are kClusters.
int32_t WriteClusterList(const ScoreTask& task, const PickLists& lists,
                         int list, SelectScratch& scratch);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_CLUSTER_CHOICE_H_
