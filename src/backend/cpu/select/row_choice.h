// RowChoice: the lists of one row.
#ifndef WINNOW_BACKEND_CPU_SELECT_ROW_CHOICE_H_
#define WINNOW_BACKEND_CPU_SELECT_ROW_CHOICE_H_

#include "backend/backend.h"
#include "backend/cpu/select/row_scores.h"
#include "backend/cpu/select/top_scores.h"
#include "backend/cpu/step_rows.h"

namespace winnow {

// The tokens of a cluster: `first` + each of these.
struct ClusterTokens {
  int64_t first = 0;
  std::span<const uint16_t> tokens;
};

// What one worker chooses with: grows to the longest context.
struct SelectScratch {
  RowScores scores;
  TopScores top;
  std::vector<uint32_t> tokens;       // [pages]: of a list with any tokens
  std::vector<uint32_t> more_tokens;  // [pages]: the same of a larger budget
  std::vector<int32_t> ranked;        // clusters, or partitions
  // Clusters that a number of tokens may be of, their scores and their sizes.
  std::vector<ClusterTokens> clusters;
  std::vector<float> cluster_scores;
  std::vector<int32_t> cluster_sizes;
};

// Consecutive rows of a step that have lists.
struct SelectRows {
  const StepRows& rows;
  const SelectArgs& args;
  const LayerCache& cache;
  View gate_queries;  // of the step, as GateQueries makes them; or empty
  int64_t first_row = 0;
  int64_t num_rows = 0;
  std::span<const RawScores> raw = {};  // [num_rows]; empty: none is known
};

// Borrows what a Select was called with.
class RowChoice {
 public:
  RowChoice(const SelectRows& of, int64_t row);

  // Null where nothing is chosen for the row: it reads everything.
  const SelectProgram* program() const { return program_; }
  // True where scores decide.
  bool NeedsScores() const;
  // Scores are those of summary rows among so many first tokens.
  int64_t scored_tokens() const;
  const SummaryTable& summaries() const;
  // What the summaries are scored with: q, or the gates'.
  const View& queries() const;  // [rows, query heads, k_dim]

  // So many consecutive query heads are a list's, and its scores are made of
  // theirs and no others', and of nothing else (ReducesHeadsAlone); 0: or not.
  // REQUIRES: scores decide.
  int ReducedHeads() const;

  // Lists of a KV head, which are made of its scores alone; 0: none is chosen.
  // REQUIRES: no list is for the layer.
  int ListsOfKvHead() const;

  // What all of the row's lists share, once.
  void Begin() const;
  // Chooses for list `list`, if the row has it.
  void Choose(int list, const RawScores& raw, SelectScratch& scratch) const;

 private:
  // Lists that are chosen apart from each other. REQUIRES: program() is there.
  int NumChoices() const;
  // What is always read, of list `list`; false: nothing is fixed.
  FixedTokens Fixed(int list) const;
  // One of args_.selectors. REQUIRES: the row's request has one.
  const LayerSelector& selector() const;
  // Writes the task's scores to SelectArgs::scores, of lists [list, end_list).
  void KeepScores(const ScoreTask& task, int list, int end_list,
                  RowScores& scores) const;
  // What is read of a list that has been made or was kept.
  void Finish(int list, int32_t num_picks, int32_t num_next) const;
  // Whether the row's next ranks are asked for.
  bool WantsNext() const;

  const StepRows& rows_;
  const SelectArgs& args_;
  const LayerCache& cache_;
  const View& gate_queries_;
  const int64_t row_;
  const SelectProgram* const program_;
  const int64_t fixed_end_;  // 0: nothing is fixed
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_ROW_CHOICE_H_
