// ReadWatch: what the rows of watched requests read, told to the host.
#ifndef WINNOW_ENGINE_SELECTION_READ_WATCH_H_
#define WINNOW_ENGINE_SELECTION_READ_WATCH_H_

#include <memory>
#include <vector>

#include "engine/selection/read_ranges.h"
#include "engine/selection/selector_set.h"
#include "model/forward/transformer.h"

namespace winnow {

struct ReadWatchOptions {
  int max_rows = 0;    // watched in one step
  int max_ranges = 0;  // told of a row and layer
};

// A row that draws a token.
struct WatchedRow {
  int row = 0;  // of the step
  int position = 0;
  int selector = -1;
  bool is_prompt = false;
};

// Owns host memory for the lists of max_rows rows in every layer, which Forward
// copies there behind each Select while a watched request is in the step; a
// step without one does nothing for it. Used by the engine's thread alone.
class ReadWatch {
 public:
  // REQUIRES: model and selectors outlive the watch.
  static Result<std::unique_ptr<ReadWatch>> Create(
      Backend& backend, const Model& model, const SelectorSet& selectors,
      const ReadWatchOptions& options);

  // The rows of a step, ascending. REQUIRES: at most max_rows.
  void Begin(std::vector<WatchedRow> rows);
  // For ForwardArgs, until the next Begin.
  WatchedRows watched() const { return {.rows = rows_, .lists = lists_}; }
  // What watched row `index` read. REQUIRES: the step has run all its layers.
  TokenReads Reads(size_t index) const;

 private:
  ReadWatch(const Model& model, const SelectorSet& selectors,
            const ReadWatchOptions& options)
      : model_(model), selectors_(selectors), options_(options) {}
  Status Allocate(Backend& backend);
  bool HasLists(const WatchedRow& row, int layer) const;

  const Model& model_;
  const SelectorSet& selectors_;
  const ReadWatchOptions options_;
  std::vector<Buffer> memory_;
  std::vector<PickLists> lists_;  // by layer; none without selectors
  std::vector<WatchedRow> watched_;
  std::vector<int> rows_;  // of watched_
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_SELECTION_READ_WATCH_H_
