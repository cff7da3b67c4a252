#include "simulate/select_recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "backend/cpu/cpu_backend.h"

namespace winnow {
namespace {

constexpr int kPages = 20, kHeads = 2;
constexpr int64_t kMaxContext = int64_t{kPages} * kPageTokens;

// Chooses without a look at keys: a list's pages come in an order of its own,
// as many as the budget has; the row's own page is read besides.
class OrderedSelect final : public ForwardingBackend {
 public:
  OrderedSelect() : ForwardingBackend(MakeCpuBackend({.num_threads = 1})) {}

  static std::vector<Pick> List(int64_t position, int layer, int list,
                                int64_t budget_tokens) {
    std::vector<uint32_t> order(static_cast<size_t>(position / kPageTokens));
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, {}, [&](uint32_t page) {
      return (page * 7 + static_cast<uint32_t>(position + 3 * layer + list)) %
             11;
    });
    const size_t num_chosen = std::min(
        order.size(), static_cast<size_t>(budget_tokens / kPageTokens));
    const auto chosen = std::span(order).first(num_chosen);
    std::ranges::sort(chosen);
    std::vector<Pick> picks;
    for (const uint32_t page : chosen) picks.push_back({page, ~uint32_t{0}});
    picks.push_back({static_cast<uint32_t>(position / kPageTokens),
                     ~uint32_t{0} >> (31 - position % kPageTokens)});
    return picks;
  }

  // Of the page in that order; -infinity in the row's own.
  static float Score(int64_t position, int layer, int list, uint32_t page) {
    if (page == position / kPageTokens) {
      return -std::numeric_limits<float>::infinity();
    }
    return -static_cast<float>(
        (page * 7 + static_cast<uint32_t>(position + 3 * layer + list)) % 11);
  }

  void Select(Queue&, const LayerStep& step, const SelectArgs& args,
              const LayerCache&) override {
    ++(args.scores.empty() ? num_selects : num_score_selects);
    const SelectProgram& program = *args.selectors[0].program;
    const PickLists& lists = args.picks;
    for (int row = lists.first_row; row < lists.first_row + lists.num_rows();
         ++row) {
      const int request = step.row_to_request.As<int32_t>()[row];
      const int64_t position = step.first_position.As<int32_t>()[request] +
                               row - step.first_row.As<int32_t>()[request];
      lists.NumLists(row) = kHeads;
      for (int list = 0; list < kHeads; ++list) {
        const std::vector<Pick> picks =
            List(position, step.layer, list, program.budget.TokensOf(0));
        CHECK(std::ssize(picks) <= lists.capacity());
        std::ranges::copy(picks, lists.List(row, list));
        lists.NumPicks(row, list) = static_cast<int32_t>(picks.size());
        if (args.scores.empty()) continue;
        ASSERT_EQ(args.scores.dim(2), position + 1);
        float* scores = args.scores.Row<float>(row - lists.first_row) +
                        list * args.scores.stride[1];
        for (int64_t token = 0; token <= position; ++token) {
          scores[token] = Score(position, step.layer, list,
                                static_cast<uint32_t>(token / kPageTokens));
        }
      }
      if (position % 50 == 0) {
        lists.NumLists(row) = 1;
        lists.NumPicks(row, 0) = kEveryPage;
      }
    }
  }

  int num_selects = 0, num_score_selects = 0;
};

class SelectRecorderTest : public testing::Test {
 protected:
  SelectRecorderTest() {
    header_.num_q_heads = header_.num_kv_heads = kHeads;
    header_.head_dim = 64;
    header_.kv_element_bytes = 2;
    header_.chooses = {false, true, true};
    header_.levels = {500, 1000, 2000};
    auto select = std::make_unique<OrderedSelect>();
    select_ = select.get();
    recorder_ = std::make_unique<SelectRecorder>(std::move(select), header_,
                                                 kMaxContext);
    program_.budget = {Amount::Unit::kTokens, 4 * kPageTokens};
    picks_.resize(4 * kHeads * kPages * 2);
    q_.resize(4 * kHeads * 64);
  }

  // Rows of one request, chosen for in both layers that choose, at once or a
  // few at a time.
  void Step(int first_position, int num_prefill_rows, int num_rows,
            int rows_a_run = 4) {
    LayerStep step;
    step.num_rows = num_rows;
    step.num_requests = 1;
    std::vector<int32_t> zeros(static_cast<size_t>(num_rows), 0);
    const auto one = [](int32_t& value) {
      return MakeView(&value, Dtype::kInt32, {1});
    };
    int32_t first_row = 0;
    step.row_to_request = MakeView(zeros.data(), Dtype::kInt32, {num_rows});
    step.first_row = one(first_row);
    step.first_position = one(first_position);
    step.num_tokens = one(num_rows);
    step.num_prefill_rows = one(num_prefill_rows);
    step.has_prefill_rows = num_prefill_rows > 0;
    step.has_decode_rows = num_prefill_rows < num_rows;
    const LayerSelector selector = {.program = &program_, .summaries = {}};
    SelectArgs args;
    args.selectors = {&selector, 1};
    args.q = MakeView(q_.data(), Dtype::kFloat32, {num_rows, kHeads, 64});
    args.picks.picks =
        MakeView(picks_.data(), Dtype::kUInt32, {num_rows, kHeads, kPages, 2});
    args.picks.num_picks =
        MakeView(num_picks_.data(), Dtype::kInt32, {num_rows, kHeads});
    args.picks.num_lists =
        MakeView(num_lists_.data(), Dtype::kInt32, {num_rows});
    const PickLists all = args.picks;
    for (step.layer = 1; step.layer < 3; ++step.layer) {
      for (int row = 0; row < num_rows; row += rows_a_run) {
        args.picks = all.Rows(0, std::min(rows_a_run, num_rows - row));
        args.picks.first_row = row;
        recorder_->Select(*queue(), step, args, {});
        const int64_t position = first_position + row;
        if (position % 50 == 0) continue;
        // What the step reads is the budget's.
        const std::vector<Pick> expected =
            OrderedSelect::List(position, step.layer, 1, 4 * kPageTokens);
        ASSERT_EQ(args.picks.NumPicks(row, 1), std::ssize(expected));
        ASSERT_TRUE(std::ranges::equal(
            expected, std::span(args.picks.List(row, 1), expected.size())));
      }
    }
  }

  Queue* queue() {
    if (queue_ == nullptr) queue_ = recorder_->MakeQueue();
    return queue_.get();
  }

  TraceHeader header_;
  SelectProgram program_;
  OrderedSelect* select_ = nullptr;
  std::unique_ptr<SelectRecorder> recorder_;
  std::unique_ptr<Queue> queue_;
  std::vector<uint32_t> picks_;
  std::vector<float> q_;
  std::array<int32_t, 4 * kHeads> num_picks_ = {};
  std::array<int32_t, 4> num_lists_ = {};
};

std::vector<Pick> UpTo(const TraceList& list, size_t last) {
  std::vector<Pick> picks;
  for (size_t level = 0; level <= last; ++level) {
    picks.insert(picks.end(), list.bands[level].begin(),
                 list.bands[level].end());
  }
  std::ranges::sort(picks, {}, &Pick::page);
  return picks;
}

// The bands' extremes are exact, and there is nothing between two steps here.
void ExpectScores(const TraceList& list, int64_t position, int layer,
                  int index) {
  ASSERT_EQ(list.scores.size(), list.bands.size());
  for (size_t level = 0; level < list.bands.size(); ++level) {
    const BandScores& scores = list.scores[level];
    for (size_t i = 0; i < list.bands[level].size(); ++i) {
      const float expected = OrderedSelect::Score(position, layer, index,
                                                  list.bands[level][i].page);
      if (std::isinf(expected)) {
        EXPECT_EQ(scores.ScoreOf(i), expected);
      } else {
        EXPECT_NEAR(scores.ScoreOf(i), expected, 10.0 / 508);
      }
    }
  }
}

TEST_F(SelectRecorderTest, EveryLevelIsWhatItsBudgetReads) {
  recorder_->Begin();
  Step(320, 0, 3);
  for (int position = 323; position < 360; ++position) Step(position, 0, 1);
  const TraceRequest request = recorder_->Take();
  EXPECT_EQ(request.first_position, 320);
  ASSERT_EQ(request.steps.size(), 38u);
  EXPECT_EQ(request.num_rows(), 40);
  int64_t position = 320;
  int num_all = 0;
  for (const TraceStep& step : request.steps) {
    ASSERT_EQ(step.layers.size(), 2u);
    for (size_t layer = 0; layer < 2; ++layer) {
      ASSERT_EQ(std::ssize(step.layers[layer]), step.num_rows);
      for (int row = 0; row < step.num_rows; ++row) {
        const TraceRowLists& lists =
            step.layers[layer][static_cast<size_t>(row)];
        if ((position + row) % 50 == 0) {
          ASSERT_EQ(lists.size(), 1u);
          EXPECT_TRUE(lists[0].reads_all);
          ++num_all;
          continue;
        }
        ASSERT_EQ(std::ssize(lists), kHeads);
        for (int list = 0; list < kHeads; ++list) {
          for (size_t level = 0; level < 3; ++level) {
            EXPECT_EQ(UpTo(lists[static_cast<size_t>(list)], level),
                      OrderedSelect::List(
                          position + row, static_cast<int>(layer) + 1, list,
                          4 * kPageTokens * header_.levels[level] / 1000));
            ExpectScores(lists[static_cast<size_t>(list)], position + row,
                         static_cast<int>(layer) + 1, list);
          }
        }
      }
    }
    position += step.num_rows;
  }
  EXPECT_EQ(num_all, 2);
}

TEST_F(SelectRecorderTest, PrefillRowsAndWhatIsNotAskedForAreLeftOut) {
  Step(100, 0, 1);
  EXPECT_EQ(select_->num_selects, 2);
  recorder_->Begin();
  Step(200, 4, 4);
  EXPECT_EQ(select_->num_selects, 4);
  Step(204, 2, 4);
  EXPECT_EQ(select_->num_selects, 10);
  EXPECT_EQ(select_->num_score_selects, 4);
  const TraceRequest request = recorder_->Take();
  EXPECT_EQ(request.first_position, 206);
  ASSERT_EQ(request.steps.size(), 1u);
  EXPECT_EQ(request.steps[0].num_rows, 2);
  EXPECT_EQ(UpTo(request.steps[0].layers[0][1][0], 1),
            OrderedSelect::List(207, 1, 0, 4 * kPageTokens));
}

TEST_F(SelectRecorderTest, RunsOfRowsAreStepsOfTheirOwn) {
  recorder_->Begin();
  Step(201, 1, 4, 2);
  const TraceRequest request = recorder_->Take();
  EXPECT_EQ(request.first_position, 202);
  ASSERT_EQ(request.steps.size(), 2u);
  EXPECT_EQ(request.steps[0].num_rows, 1);
  EXPECT_EQ(request.steps[1].num_rows, 2);
  for (size_t layer = 0; layer < 2; ++layer) {
    const auto of = [&](size_t step, size_t row) {
      return UpTo(request.steps[step].layers[layer][row][1], 2);
    };
    const auto expected = [&](int64_t position) {
      return OrderedSelect::List(position, static_cast<int>(layer) + 1, 1,
                                 8 * kPageTokens);
    };
    EXPECT_EQ(of(0, 0), expected(202));
    EXPECT_EQ(of(1, 0), expected(203));
    EXPECT_EQ(of(1, 1), expected(204));
  }
}

using SelectRecorderDeathTest = SelectRecorderTest;

TEST_F(SelectRecorderDeathTest, OneRequestAtATime) {
  recorder_->Begin();
  Step(200, 0, 1);
  EXPECT_DEATH(Step(300, 0, 1), "layer=1 rows=1 position=300");
}

}  // namespace
}  // namespace winnow
