#include "engine/selection/read_watch.h"

#include <algorithm>

namespace winnow {

Result<std::unique_ptr<ReadWatch>> ReadWatch::Create(
    Backend& backend, const Model& model, const SelectorSet& selectors,
    const ReadWatchOptions& options) {
  CHECK(options.max_rows > 0 && options.max_ranges > 0,
        "max_rows={} max_ranges={}", options.max_rows, options.max_ranges);
  std::unique_ptr<ReadWatch> watch(new ReadWatch(model, selectors, options));
  if (selectors.size() > 0) RETURN_IF_ERROR(watch->Allocate(backend));
  return watch;
}

Status ReadWatch::Allocate(Backend& backend) {
  const PickLists lists = selectors_.selection().picks;
  const int64_t num_heads = lists.num_picks.dim(1);
  const int num_layers = model_.config().num_layers;
  const int64_t num_rows = int64_t{num_layers} * options_.max_rows;
  const auto take = [&](Dtype dtype,
                        std::initializer_list<int64_t> shape) -> Result<View> {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    ASSIGN_OR_RETURN(
        Buffer memory,
        backend.Allocate(Tier::kHost,
                         static_cast<size_t>(count * DtypeBytes(dtype)),
                         "lists of watched rows"));
    memory_.push_back(std::move(memory));
    return memory_.back().At(0, dtype, shape);
  };
  PickLists all;
  ASSIGN_OR_RETURN(all.picks, take(Dtype::kUInt32,
                                   {num_rows, num_heads, lists.capacity(), 2}));
  ASSIGN_OR_RETURN(all.num_picks, take(Dtype::kInt32, {num_rows, num_heads}));
  ASSIGN_OR_RETURN(all.num_lists, take(Dtype::kInt32, {num_rows}));
  for (int layer = 0; layer < num_layers; ++layer) {
    lists_.push_back(all.Rows(layer * options_.max_rows, options_.max_rows));
    lists_.back().first_row = 0;
  }
  return Ok{};
}

void ReadWatch::Begin(std::vector<WatchedRow> rows) {
  CHECK(std::ssize(rows) <= options_.max_rows, "rows={} max_rows={}",
        rows.size(), options_.max_rows);
  watched_ = std::move(rows);
  rows_.clear();
  for (const WatchedRow& row : watched_) rows_.push_back(row.row);
}

// Else the row reads all that the layer's window shows.
bool ReadWatch::HasLists(const WatchedRow& row, int layer) const {
  if (row.selector < 0) return false;
  const SelectProgram* program =
      selectors_.selector(row.selector).ForLayer(layer);
  return program != nullptr && (!row.is_prompt || program->in_prompt);
}

TokenReads ReadWatch::Reads(size_t index) const {
  const ModelConfig& config = model_.config();
  const WatchedRow& row = watched_[index];
  TokenReads reads = {.position = row.position + 1, .layers = {}};
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const int window = config.windows[static_cast<size_t>(layer)];
    const VisibleTokens visible = {
        .first = window > 0 ? std::max(0, reads.position - window) : 0,
        .end = reads.position};
    std::vector<ReadRange>& ranges = reads.layers.emplace_back();
    if (HasLists(row, layer)) {
      ranges = RangesRead(lists_[static_cast<size_t>(layer)],
                          static_cast<int>(index), visible, config.num_q_heads);
    } else {
      ranges = {{visible.first, visible.end, config.num_q_heads}};
    }
    const bool cut =
        KeepMostRead(static_cast<size_t>(options_.max_ranges), &ranges);
    reads.truncated = reads.truncated || cut;
  }
  return reads;
}

}  // namespace winnow
