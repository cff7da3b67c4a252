// Which clusters a list reads, and which it estimates.
#ifndef WINNOW_BACKEND_CPU_SELECT_CLUSTER_CHOICE_H_
#define WINNOW_BACKEND_CPU_SELECT_CLUSTER_CHOICE_H_

#include "backend/cpu/select/row_choice.h"

namespace winnow {

// True where scores decide for a row at position `context - 1`.
bool ClustersNeedScores(const SelectProgram& program, int64_t context);

struct ClusterCounts {
  int32_t num_picks = 0;
  int32_t num_next = 0;  // of NextRanks
};

// Writes list `list` of the task's row: its picks, its estimates and, where
// they are wanted, its next ranks. Sinks, and what lies behind the clustered
// segments, are read whatever the scores. REQUIRES: the program's rows are
// kClusters.
ClusterCounts WriteClusterList(const ScoreTask& task, const SelectArgs& args,
                               int list, bool wants_next,
                               SelectScratch& scratch);

// The scores of the task's clusters, by token; those of tokens in no cluster
// are left. REQUIRES: the program's rows are kClusters.
void SpreadClusterScores(const ScoreTask& task, std::span<const float> scores,
                         std::span<float> tokens);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_CLUSTER_CHOICE_H_
