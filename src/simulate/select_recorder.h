// SelectRecorder: a backend that writes down what decode rows choose.
#ifndef WINNOW_SIMULATE_SELECT_RECORDER_H_
#define WINNOW_SIMULATE_SELECT_RECORDER_H_

#include <memory>
#include <vector>

#include "backend/forwarding.h"
#include "simulate/trace.h"

namespace winnow {

// Does what the backend that it owns does, and after each Select reads the
// lists of decode rows. The levels besides the budget come from more Selects
// of the same rows, with programs whose budgets are so many times as large,
// into memory of its own; picks are monotone in the budget, so each level holds
// those below it, and what it adds to them are the next ranks. What is computed
// is the same with and without recording. A program whose rule knows no budget
// (a threshold) has no next ranks. Scores come from one more Select a row,
// where the backend tells them (SelectFeature::kScores); else picks have none.
//
// Used as a backend is, by one thread; one request at a time has decode rows
// while it records. REQUIRES: the device's memory is the host's. An op may
// allocate here: what is timed with a recorder between is no measurement.
class SelectRecorder final : public ForwardingBackend {
 public:
  // `max_context`: tokens a sequence may reach.
  SelectRecorder(std::unique_ptr<Backend> real, TraceHeader header,
                 int64_t max_context);

  // What follows is one request, until Take.
  void Begin();
  // All rows since Begin. Its texts are the caller's to fill in.
  TraceRequest Take();

  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override;

 private:
  // The lists of one level other than the budget's.
  struct LevelLists {
    std::vector<SelectProgram> programs;  // by selector
    std::vector<Buffer> memory;
    PickLists lists;
  };
  // The decode rows of a Select.
  struct Rows {
    int first = 0, count = 0;  // of the step
    int64_t first_position = 0;
  };

  static Rows DecodeRows(const LayerStep& step, const PickLists& lists);
  PickLists& SelectLevel(Queue& queue, const LayerStep& step,
                         const SelectArgs& args, const LayerCache& cache,
                         size_t level);
  void MakeRoom(const SelectArgs& args, LevelLists& level);
  TraceStep& StepOf(int layer, const Rows& rows);
  // One row of a Select under way.
  struct RowAt {
    int row = 0;  // of the step
    int64_t context = 0;
  };
  // Leaves in scores_ those of its lists.
  void ScoreRow(Queue& queue, const LayerStep& step, const SelectArgs& args,
                const LayerCache& cache, const RowAt& at);
  TraceList ListOf(const std::vector<const PickLists*>& levels, int row,
                   int list);
  BandScores ScoresOf(const std::vector<Pick>& band, int list) const;

  const TraceHeader header_;
  const int64_t max_context_;
  std::vector<LevelLists> levels_;
  std::vector<uint32_t> seen_;  // by page: tokens of the levels below
  const bool has_scores_;       // the backend tells them
  std::vector<float> scores_;   // [q_heads, context] of the row at hand
  bool records_ = false;
  TraceRequest request_;
  std::vector<int64_t> step_positions_;  // first ones, of request_.steps
};

}  // namespace winnow

#endif  // WINNOW_SIMULATE_SELECT_RECORDER_H_
