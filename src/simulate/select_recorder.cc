#include "simulate/select_recorder.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace winnow {
namespace {

// The program with another budget, and without what it would estimate: of that
// the lists say nothing.
SelectProgram AtLevel(const SelectProgram& program, int level) {
  SelectProgram scaled =
      WithBudgetTimes(program, static_cast<double>(level) / kBudgetLevel);
  scaled.estimate.value = 0;
  return scaled;
}

int FirstChoosing(const TraceHeader& header) {
  const auto at = std::ranges::find(header.chooses, true);
  return static_cast<int>(at - header.chooses.begin());
}

}  // namespace

SelectRecorder::SelectRecorder(std::unique_ptr<Backend> backend,
                               TraceHeader header, int64_t max_context)
    : ForwardingBackend(std::move(backend)),
      header_(std::move(header)),
      max_context_(max_context),
      levels_(header_.levels.size()),
      seen_(static_cast<size_t>(PagesFor(max_context))),
      has_scores_((attributes().select_features &
                   static_cast<uint32_t>(SelectFeature::kScores)) != 0) {
  CHECK(attributes().device_is_host, "device={}", attributes().name);
}

void SelectRecorder::Begin() {
  CHECK(!records_);
  records_ = true;
  request_ = {};
  step_positions_.clear();
}

TraceRequest SelectRecorder::Take() {
  CHECK(records_);
  records_ = false;
  return std::exchange(request_, {});
}

// Of a request's rows the generated ones are the last.
SelectRecorder::Rows SelectRecorder::DecodeRows(const LayerStep& step,
                                                const PickLists& lists) {
  Rows rows;
  const int end = lists.first_row + lists.num_rows();
  for (int row = lists.first_row; row < end; ++row) {
    const int request = step.row_to_request.As<int32_t>()[row];
    const int in_request = row - step.first_row.As<int32_t>()[request];
    if (in_request < step.num_prefill_rows.As<int32_t>()[request]) continue;
    const int64_t position =
        step.first_position.As<int32_t>()[request] + in_request;
    if (rows.count == 0) rows = {.first = row, .first_position = position};
    CHECK(row == rows.first + rows.count &&
              position == rows.first_position + rows.count,
          "row={} position={} behind row={} position={}: one request at a time "
          "is recorded",
          row, position, rows.first + rows.count - 1,
          rows.first_position + rows.count - 1);
    ++rows.count;
  }
  return rows;
}

// In the first layer that chooses a step begins. A layer may choose for its
// rows run after run, each of which is a step then; the next layer's runs are
// the same.
TraceStep& SelectRecorder::StepOf(int layer, const Rows& rows) {
  if (layer == FirstChoosing(header_)) {
    if (request_.steps.empty()) request_.first_position = rows.first_position;
    const int64_t end = request_.first_position + request_.num_rows();
    CHECK(rows.first_position == end, "layer={} rows={} position={} behind {}",
          layer, rows.count, rows.first_position, end);
    step_positions_.push_back(end);
    TraceStep& step = request_.steps.emplace_back();
    step.num_rows = rows.count;
    return step;
  }
  const auto at =
      std::ranges::lower_bound(step_positions_, rows.first_position);
  CHECK(at != step_positions_.end() && *at == rows.first_position,
        "layer={} rows={} position={}", layer, rows.count, rows.first_position);
  TraceStep& step =
      request_.steps[static_cast<size_t>(at - step_positions_.begin())];
  CHECK(step.num_rows == rows.count, "layer={} rows={} of {}", layer,
        rows.count, step.num_rows);
  return step;
}

// As much as the longest list at this level takes, for as many rows.
void SelectRecorder::MakeRoom(const SelectArgs& args, LevelLists& level) {
  const int64_t num_rows = args.picks.num_rows();
  const int64_t num_heads = args.q.dim(1);
  if (!level.memory.empty() && level.lists.picks.dim(0) >= num_rows) return;
  int64_t capacity = 1;
  for (const SelectProgram& program : level.programs) {
    capacity = std::max(capacity, MaxPicks(program, max_context_));
  }
  level.memory.clear();
  const auto take = [&](Dtype dtype, std::initializer_list<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    Result<Buffer> memory = real().Allocate(
        Tier::kDevice, static_cast<size_t>(count * DtypeBytes(dtype)),
        "lists of a trace");
    CHECK(memory.ok(), "{}", memory.error().message);
    const View view = memory->At(0, dtype, shape);
    level.memory.push_back(std::move(memory).value());
    return view;
  };
  level.lists.picks = take(Dtype::kUInt32, {num_rows, num_heads, capacity, 2});
  level.lists.num_picks = take(Dtype::kInt32, {num_rows, num_heads});
  level.lists.num_lists = take(Dtype::kInt32, {num_rows});
  // Lists that are kept for later layers stay where they are, as args' do.
  level.lists.num_kept = take(Dtype::kInt32, {num_rows, num_heads});
}

// Lists of another layer have no scores in this one.
void SelectRecorder::ScoreRow(Queue& queue, const LayerStep& step,
                              const SelectArgs& args, const LayerCache& cache,
                              const RowAt& at) {
  if (!has_scores_) return;
  scores_.assign(static_cast<size_t>(header_.num_q_heads * at.context),
                 -std::numeric_limits<float>::infinity());
  std::vector<LayerSelector> selectors(args.selectors.begin(),
                                       args.selectors.end());
  LevelLists& level = levels_[static_cast<size_t>(header_.budget_level())];
  level.programs.clear();
  for (LayerSelector& selector : selectors) {
    if (selector.keeps_lists || selector.reuse_layer >= 0) selector = {};
    if (selector.program == nullptr) continue;
    level.programs.push_back(AtLevel(*selector.program, kBudgetLevel));
  }
  for (size_t i = 0, next = 0; i < selectors.size(); ++i) {
    if (selectors[i].program == nullptr) continue;
    selectors[i].program = &level.programs[next++];
  }
  MakeRoom(args, level);
  SelectArgs one = args;
  one.selectors = selectors;
  level.lists.first_row = args.picks.first_row;
  one.picks = level.lists.Rows(at.row, 1);
  one.read_shares = {};
  one.next = {};
  one.scores = MakeView(scores_.data(), Dtype::kFloat32,
                        {1, header_.num_q_heads, at.context});
  real().Select(queue, step, one, cache);
}

// Of each pick the greatest of its tokens.
BandScores SelectRecorder::ScoresOf(const std::vector<Pick>& band,
                                    int list) const {
  if (!has_scores_) return {};
  const auto context =
      std::ssize(scores_) / static_cast<int64_t>(header_.num_q_heads);
  std::vector<float> scores;
  for (const Pick& pick : band) {
    const int64_t first = list * context + int64_t{pick.page} * kPageTokens;
    float most = -std::numeric_limits<float>::infinity();
    for (uint32_t left = pick.tokens; left != 0; left &= left - 1) {
      most = std::max(
          most, scores_[static_cast<size_t>(first + std::countr_zero(left))]);
    }
    scores.push_back(most);
  }
  return BandScoresOf(scores);
}

PickLists& SelectRecorder::SelectLevel(Queue& queue, const LayerStep& step,
                                       const SelectArgs& args,
                                       const LayerCache& cache, size_t index) {
  LevelLists& level = levels_[index];
  level.programs.clear();
  level.programs.reserve(args.selectors.size());
  std::vector<LayerSelector> selectors(args.selectors.begin(),
                                       args.selectors.end());
  for (LayerSelector& selector : selectors) {
    if (selector.program == nullptr) continue;
    level.programs.push_back(AtLevel(*selector.program, header_.levels[index]));
    selector.program = &level.programs.back();
  }
  MakeRoom(args, level);
  SelectArgs scaled = args;
  scaled.selectors = selectors;
  level.lists.first_row = args.picks.first_row;
  scaled.picks = level.lists.Rows(args.picks.first_row, args.picks.num_rows());
  scaled.read_shares = {};
  scaled.next = {};
  real().Select(queue, step, scaled, cache);
  level.lists.first_row = args.picks.first_row;
  return level.lists;
}

TraceList SelectRecorder::ListOf(const std::vector<const PickLists*>& levels,
                                 int row, int list) {
  const auto budget = static_cast<size_t>(header_.budget_level());
  TraceList traced;
  traced.reads_all = levels[budget]->NumPicks(row, list) == kEveryPage;
  if (traced.reads_all) return traced;
  for (const PickLists* lists : levels) {
    std::vector<Pick>& band = traced.bands.emplace_back();
    const Pick* picks = lists->List(row, list);
    for (int32_t i = 0; i < lists->NumPicks(row, list); ++i) {
      uint32_t& seen = seen_[picks[i].page];
      const uint32_t added = picks[i].tokens & ~seen;
      if (added != 0) band.push_back({picks[i].page, added});
      seen |= added;
    }
  }
  for (const std::vector<Pick>& band : traced.bands) {
    traced.scores.push_back(ScoresOf(band, list));
  }
  // Below the budget nothing is read that it does not read.
  const Pick* picks = levels[budget]->List(row, list);
  for (int32_t i = 0; i < levels[budget]->NumPicks(row, list); ++i) {
    seen_[picks[i].page] &= ~picks[i].tokens;
  }
  for (size_t level = 0; level < traced.bands.size(); ++level) {
    for (const Pick& pick : traced.bands[level]) {
      uint32_t& seen = seen_[pick.page];
      CHECK(level > budget || (seen & pick.tokens) == 0,
            "page={}: level {} reads what the budget does not", pick.page,
            header_.levels[level]);
      seen = 0;
    }
  }
  return traced;
}

void SelectRecorder::Select(Queue& queue, const LayerStep& step,
                            const SelectArgs& args, const LayerCache& cache) {
  real().Select(queue, step, args, cache);
  if (!records_ || !step.has_decode_rows) return;
  const Rows rows = DecodeRows(step, args.picks);
  if (rows.count == 0) return;
  auto& traced = StepOf(step.layer, rows).layers.emplace_back();
  std::vector<const PickLists*> levels;
  for (size_t i = 0; i < levels_.size(); ++i) {
    const bool is_budget = static_cast<int>(i) == header_.budget_level();
    levels.push_back(is_budget ? &args.picks
                               : &SelectLevel(queue, step, args, cache, i));
  }
  for (int row = rows.first; row < rows.first + rows.count; ++row) {
    TraceRowLists& lists = traced.emplace_back();
    ScoreRow(queue, step, args, cache,
             {row, rows.first_position + row - rows.first + 1});
    for (int list = 0; list < args.picks.NumLists(row); ++list) {
      lists.push_back(ListOf(levels, row, list));
    }
  }
}

}  // namespace winnow
