// StepDriver: runs the transformer for tests, with a KV pool laid out by hand.
#ifndef WINNOW_TESTS_GOLDEN_STEP_DRIVER_H_
#define WINNOW_TESTS_GOLDEN_STEP_DRIVER_H_

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/forward/transformer.h"
#include "tests/golden/driven_slots.h"

namespace winnow {

// The tokens that one request adds in a step.
struct DrivenRows {
  int request = 0;  // whose KV
  int first_position = 0;
  std::vector<int32_t> token_ids;
  int num_prefill_rows = 0;   // the first of them; the rest are decode rows
  int num_prompt_tokens = 0;  // of the whole prompt; asked where one chooses
};

// Owns a KV pool, whose KV blocks are dealt to requests in no order, and what a
// step reads. Test code: every failure CHECKs. The backend's device must be
// host memory. Independent of cache/ and engine/, so that what it shows is the
// model and the backend alone.
class StepDriver {
 public:
  // REQUIRES: the backend and the model outlive the driver.
  StepDriver(Backend& backend, const Model& model, int num_requests,
             int max_tokens);

  // Fixes a request's rope frequencies.
  void Plan(int request, int64_t planned_tokens);

  // From now on all requests choose by `program`, in all layers.
  // REQUIRES: no request has tokens; max_tokens fit one segment of summaries;
  // the program outlives the driver.
  void Choose(const SelectProgram& program);

  // Runs one step through the layer ranges that `range_ends` cut the model
  // into (empty: one range). Returns the logits of all rows: [rows, vocab].
  std::vector<float> Step(std::span<const DrivenRows> requests,
                          std::span<const int> range_ends = {});

  // From now on the first pages of request 0 lie elsewhere, and steps name it
  // alone. REQUIRES: a step has run, and its tokens fill those pages.
  void Unload(const DrivenSlots::Shape& shape);
  // Null before.
  const DrivenSlots* slots() const { return slots_.get(); }

  bool batch_invariant = false;

 private:
  View Integers(const std::vector<int32_t>& values);
  View PlannedRope(std::span<const DrivenRows> requests, View* scale);
  void PointTables(std::span<const DrivenRows> requests);
  void Select(std::span<const DrivenRows> requests, ForwardArgs& args);
  void PointAt(std::span<const DrivenRows> requests, ForwardArgs& args);

  Backend& backend_;
  const Model& model_;
  std::unique_ptr<Queue> queue_;
  int pages_per_request_;
  Buffer pool_;
  Buffer table_;
  std::vector<LayerCache> layers_;
  std::vector<std::vector<float>> frequencies_;  // a request's, when planned
  std::vector<float> scales_;                    // [requests]
  // Of the program, if any: segment r is request r's only one.
  std::vector<LayerSelector> selectors_;  // by layer
  Buffer summaries_;
  Buffer segments_;
  std::unique_ptr<DrivenSlots> slots_;
  std::vector<Buffer> step_memory_;  // of the step that runs
};

}  // namespace winnow

#endif  // WINNOW_TESTS_GOLDEN_STEP_DRIVER_H_
