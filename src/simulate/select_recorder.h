// SelectRecorder: a backend that records the picks of decode rows.
#ifndef WINNOW_SIMULATE_SELECT_RECORDER_H_
#define WINNOW_SIMULATE_SELECT_RECORDER_H_

#include <memory>
#include <vector>

#include "backend/forwarding.h"
#include "simulate/trace.h"

namespace winnow {

// Forwards to the backend that it owns, and reads the lists of decode rows
// after each Select. Levels beside the budget's come from further Selects of
// the same rows, into memory of its own, with multiples of the program's
// budget. Picks are monotone in the budget. Hence each level contains those
// below, and the rest are the next ranks. A program whose rule has no budget (a
// threshold) has no next ranks.
//
// Scores come from one more Select for each row, if the backend reports them
// (SelectFeature::kScores). Results do not depend on recording.
//
// Used as a backend, by one thread. One request at a time has decode rows while
// it records. REQUIRES: the CPU can read the device's memory. An op may
// allocate here, so times with a recorder are no measurement.
class SelectRecorder final : public ForwardingBackend {
 public:
  // `max_context`: the greatest length of a sequence in tokens.
  SelectRecorder(std::unique_ptr<Backend> real, TraceHeader header,
                 int64_t max_context);

  // Begins the recording of one request, until Take.
  void Begin();
  // Returns all rows since Begin. The caller fills in the request's texts.
  TraceRequest Take();

  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override;

 private:
  // The lists of one level beside the budget's.
  struct LevelLists {
    std::vector<SelectProgram> programs;  // by selector
    std::vector<Buffer> memory;
    PickLists lists;
  };
  // The decode rows of a Select.
  struct Rows {
    int first = 0, count = 0;  // in the step
    int64_t first_position = 0;
  };

  static Rows DecodeRows(const LayerStep& step, const PickLists& lists);
  PickLists& SelectLevel(Queue& queue, const LayerStep& step,
                         const SelectArgs& args, const LayerCache& cache,
                         size_t level);
  void MakeRoom(const SelectArgs& args, LevelLists& level);
  TraceStep& StepOf(int layer, const Rows& rows);
  // One row of the current Select.
  struct RowAt {
    int row = 0;  // in the step
    int64_t context = 0;
  };
  // Stores the scores of its lists in scores_.
  void ScoreRow(Queue& queue, const LayerStep& step, const SelectArgs& args,
                const LayerCache& cache, const RowAt& at);
  TraceList ListOf(const std::vector<const PickLists*>& levels, int row,
                   int list);
  BandScores ScoresOf(const std::vector<Pick>& band, int list) const;

  const TraceHeader header_;
  const int64_t max_context_;
  std::vector<LevelLists> levels_;
  std::vector<uint32_t> seen_;  // by page: tokens of lower levels
  const bool has_scores_;       // the backend reports scores
  std::vector<float> scores_;   // [q_heads, context] of the current row
  bool records_ = false;
  TraceRequest request_;
  std::vector<int64_t> step_positions_;  // first positions of request_.steps
};

}  // namespace winnow

#endif  // WINNOW_SIMULATE_SELECT_RECORDER_H_
