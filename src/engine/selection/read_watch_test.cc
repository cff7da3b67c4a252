// What watched requests are told is what Attend was given, list by list,
// whatever selects; and nobody else notices.
#include "engine/selection/read_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backend/cpu/cpu_backend.h"
#include "backend/forwarding.h"
#include "engine/engine.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

const std::vector<std::string> kWatchedSelectors = {
    "quest:budget=24,block=8,dense_layers=0",
    "oracle:budget=16,block=1,recent=2",
    "infllm-v2:kernel=8,stride=4,block=32,budget=32,sink=0,recent=0,"
    "dense_len=40",
    "tidal:budget=16,select_layers=0",
    "snapkv:budget=20,window=6,kernel=3",
    "clusterkv:budget=24,segment=32,cluster=4,sink=4,dense_layers=0",
    "retroinfer:budget=8,estimate=16,segment=32,cluster=4,recent=8"};
constexpr int kNumSelectors = 7;

// By layer, of each token: the heads that read it.
using Counts = std::vector<std::vector<int>>;

// Looks into the arguments of each Attend, and counts the copies.
class ReadSpy final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  int num_copies = 0;
  // Of the last step: what the last row of each request read, by position.
  std::multimap<int, Counts> reads;

  void Copy(Queue& queue, const View& from, const View& to) override {
    ++num_copies;
    real().Copy(queue, from, to);
  }
  void Attend(Queue& queue, const LayerStep& step, const AttendArgs& args,
              const LayerCache& cache) override {
    real().Attend(queue, step, args, cache);
    if (args.sources[0].kind == AttendSource::Kind::kEstimates) return;
    const int num_heads = static_cast<int>(args.q.dim(1));
    for (int i = 0; i < step.num_requests; ++i) {
      const int num = step.num_tokens.As<int32_t>()[i];
      const int row = step.first_row.As<int32_t>()[i] + num - 1;
      const int position = step.first_position.As<int32_t>()[i] + num - 1;
      const bool is_prompt = num <= step.num_prefill_rows.As<int32_t>()[i];
      if (is_prompt ? !step.has_prefill_rows : !step.has_decode_rows) {
        continue;
      }
      std::vector<int> counts =
          CountsOf(args.sources[0], row, position, num_heads);
      if (counts.empty()) continue;
      Counts& of_row = rows_[row].second;
      rows_[row].first = position;
      ASSERT_EQ(static_cast<int>(of_row.size()), step.layer) << "row " << row;
      of_row.push_back(std::move(counts));
    }
  }
  void EndStep() {
    reads.clear();
    for (auto& [row, told] : rows_) reads.insert(std::move(told));
    rows_.clear();
  }

 private:
  // None where the row has no list here.
  static std::vector<int> CountsOf(const AttendSource& source, int row,
                                   int position, int num_heads) {
    const auto size = static_cast<size_t>(position) + 1;
    if (source.kind == AttendSource::Kind::kAllPages) {
      return std::vector<int>(size, num_heads);
    }
    const PickLists& lists = source.picks;
    if (row < lists.first_row || row >= lists.first_row + lists.num_rows()) {
      return {};
    }
    std::vector<int> counts(size, 0);
    const int num_lists = lists.NumLists(row);
    for (int head = 0; head < num_heads; ++head) {
      const int list = head / (num_heads / num_lists);
      const int32_t num = lists.NumPicks(row, list);
      for (size_t token = 0; num == kEveryPage && token < size; ++token) {
        ++counts[token];
      }
      for (int i = 0; i < num; ++i) {
        const Pick& pick = lists.List(row, list)[i];
        for (int t = 0; t < kPageTokens; ++t) {
          const size_t token =
              size_t{pick.page} * kPageTokens + static_cast<size_t>(t);
          if (((pick.tokens >> t) & 1) != 0 && token < size) ++counts[token];
        }
      }
    }
    return counts;
  }

  std::map<int, std::pair<int, Counts>> rows_;  // of the step
};

class WatchListener : public RequestObserver {
 public:
  std::vector<GeneratedToken> tokens;
  bool finished = false;

  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken& token) override {
    tokens.push_back(token);
    return true;
  }
  void OnFinish(const Completion&) override { finished = true; }
};

Counts CountsTold(const TokenReads& reads) {
  Counts counts;
  for (const std::vector<ReadRange>& ranges : reads.layers) {
    std::vector<int>& layer =
        counts.emplace_back(static_cast<size_t>(reads.position), 0);
    for (const ReadRange& range : ranges) {
      for (int token = range.first; token < range.end; ++token) {
        layer[static_cast<size_t>(token)] += range.num_heads;
      }
    }
  }
  return counts;
}

class ReadWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    WriteTinyModel(golden_, folder_.path(), {.dtype = Dtype::kFloat32});
    model_ = std::make_unique<Model>(Model::Load(folder_.path(), {}).value());
    auto spy = std::make_unique<ReadSpy>(MakeCpuBackend({}));
    spy_ = spy.get();
    backend_ = std::move(spy);
  }
  std::unique_ptr<Engine> MakeEngine(
      int max_watched, int max_ranges = 256,
      const std::vector<std::string>& selectors = kWatchedSelectors) {
    return Engine::Create(*backend_, *model_,
                          {.max_model_len = 96,
                           .max_num_batched_tokens = 64,
                           .device_kv_bytes = 4 << 20,
                           .selectors = selectors,
                           .max_watched_requests = max_watched,
                           .max_read_ranges = max_ranges})
        .value();
  }
  Request Ask(int first, int num_tokens, int selector, bool is_watched) const {
    Request request;
    for (int i = 0; i < num_tokens; ++i) {
      request.prompt.push_back(TinyToken(golden_, first, i));
    }
    request.max_tokens = 12;
    request.sampling.temperature = 0;
    request.selector = selector;
    request.is_watched = is_watched;
    return request;
  }
  void ExpectAllTold(const std::vector<std::string>& selectors);
  // What was told in a step is what was read in it.
  void ExpectTold(const WatchListener& listener, size_t num_before) {
    for (size_t i = num_before; i < listener.tokens.size(); ++i) {
      const auto& reads = listener.tokens[i].reads;
      ASSERT_NE(reads, nullptr);
      const auto [begin, end] = spy_->reads.equal_range(reads->position - 1);
      const Counts told = CountsTold(*reads);
      const bool found = std::any_of(
          begin, end, [&](const auto& read) { return read.second == told; });
      EXPECT_TRUE(found) << "position " << reads->position;
      EXPECT_FALSE(reads->truncated);
    }
  }

  TemporaryFolder folder_{"read_watch"};
  TinyCase golden_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Backend> backend_;
  ReadSpy* spy_ = nullptr;
};

// All of them at once, watched and not, prompts in chunks.
void ReadWatchTest::ExpectAllTold(const std::vector<std::string>& selectors) {
  const int num_watched = static_cast<int>(selectors.size()) + 1;
  const auto engine = MakeEngine(num_watched, 256, selectors);
  std::vector<WatchListener> listeners(2 * (selectors.size() + 1));
  for (int i = 0; i < static_cast<int>(listeners.size()); ++i) {
    const int selector = i / 2 - 1;
    ASSERT_TRUE(engine
                    ->Add(Ask(i, 50 + 2 * i, selector, i % 2 == 0),
                          &listeners[static_cast<size_t>(i)])
                    .ok());
  }
  std::vector<size_t> num_before(listeners.size(), 0);
  while (true) {
    const Result<bool> more = engine->Step();
    ASSERT_TRUE(more.ok());
    if (!*more) break;
    spy_->EndStep();
    for (size_t i = 0; i < listeners.size(); ++i) {
      if (i % 2 == 0) ExpectTold(listeners[i], num_before[i]);
      num_before[i] = listeners[i].tokens.size();
    }
  }
  for (size_t i = 0; i < listeners.size(); ++i) {
    EXPECT_TRUE(listeners[i].finished);
    EXPECT_EQ(listeners[i].tokens.size(), 12u);
    if (i % 2 == 0) continue;
    for (const GeneratedToken& token : listeners[i].tokens) {
      EXPECT_EQ(token.reads, nullptr);
    }
  }
}

TEST_F(ReadWatchTest, TellsWhatReadWasGiven) {
  ExpectAllTold(kWatchedSelectors);
}

// Where no selector acts in prompts, no lists are made for their rows.
TEST_F(ReadWatchTest, TellsThatPromptsReadEverything) {
  ExpectAllTold({kWatchedSelectors[0]});
  ExpectAllTold({});
  const auto engine = MakeEngine(1, 256, {kWatchedSelectors[0]});
  for (int turn = 0; turn < 2; ++turn) {  // The second time, lists lie there.
    WatchListener alone;
    ASSERT_TRUE(engine->Add(Ask(turn, 61, 0, true), &alone).ok());
    while (engine->Step().value()) spy_->EndStep();
    for (const auto& ranges : alone.tokens.front().reads->layers) {
      EXPECT_EQ(
          ranges,
          (std::vector<ReadRange>{{0, 61, model_->config().num_q_heads}}));
    }
  }
}

std::vector<std::pair<int32_t, float>> BitsOf(const WatchListener& listener) {
  std::vector<std::pair<int32_t, float>> bits;
  for (const GeneratedToken& token : listener.tokens) {
    bits.emplace_back(token.token_id, token.logprob);
  }
  return bits;
}

TEST_F(ReadWatchTest, ChangesNoTokenAndCostsNothingUnasked) {
  for (int selector = -1; selector < kNumSelectors; ++selector) {
    std::vector<WatchListener> listeners(3);
    std::vector<int> num_copies;
    for (int run = 0; run < 3; ++run) {
      const auto engine = MakeEngine(run == 0 ? 0 : 1);
      spy_->num_copies = 0;
      WatchListener& listener = listeners[static_cast<size_t>(run)];
      ASSERT_TRUE(engine->Add(Ask(3, 61, selector, run == 2), &listener).ok());
      while (engine->Step().value()) spy_->EndStep();
      num_copies.push_back(spy_->num_copies);
    }
    EXPECT_EQ(BitsOf(listeners[1]), BitsOf(listeners[0]));
    EXPECT_EQ(BitsOf(listeners[2]), BitsOf(listeners[0]));
    EXPECT_EQ(num_copies[1], num_copies[0]) << "selector " << selector;
    if (selector >= 0) {
      EXPECT_GT(num_copies[2], num_copies[0]);
    }
  }
}

TEST_F(ReadWatchTest, HoldsItsLimits) {
  // The engine's end finishes who is left.
  WatchListener first, second, third;
  const auto engine = MakeEngine(1, 2);
  ASSERT_TRUE(engine->Add(Ask(3, 61, 1, true), &first).ok());
  const auto refused = engine->Add(Ask(3, 61, 1, true), &second);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "watched requests at once must be at most 1, are 2");
  ASSERT_TRUE(engine->Add(Ask(3, 61, 1, false), &second).ok());
  while (engine->Step().value()) spy_->EndStep();
  bool truncated = false;
  for (const GeneratedToken& token : first.tokens) {
    for (const auto& ranges : token.reads->layers) {
      EXPECT_LE(ranges.size(), 2u);
    }
    truncated = truncated || token.reads->truncated;
  }
  EXPECT_TRUE(truncated);
  // Its place is free again.
  EXPECT_TRUE(engine->Add(Ask(3, 61, 1, true), &third).ok());
}

}  // namespace
}  // namespace winnow
