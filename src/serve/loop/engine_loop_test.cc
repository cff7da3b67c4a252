// The loop beside a disk: what is read is written while nobody asks, whoever
// asks does not wait for a disk that is silent, and nobody spins.
#include "serve/loop/engine_loop.h"

#include <dirent.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <fstream>
#include <mutex>
#include <new>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/faulty_folder.h"
#include "base/passing_folder.h"
#include "engine/testing/hooked_backend.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

using Clock = std::chrono::steady_clock;
// What a test waits for at most before it fails.
constexpr std::chrono::seconds kLong(60);
// What is asleep is seen to be so.
constexpr std::chrono::milliseconds kWhile(50);

// Shut, it lets nothing end that a disk has begun.
class Gate {
 public:
  void Shut() { Set(true); }
  void Open() { Set(false); }
  void Pass() {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [this] { return !is_shut_; });
  }

 private:
  void Set(bool is_shut) {
    const std::scoped_lock lock(mutex_);
    is_shut_ = is_shut;
    moved_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable moved_;
  bool is_shut_ = false;
};

class GatedFolder final : public PassingFolder {
 public:
  GatedFolder(std::unique_ptr<BlockFolder> real, Gate& gate)
      : PassingFolder(std::move(real)), gate_(gate) {}
  size_t Collect(std::span<BlockCompletion> completions, bool wait) override {
    gate_.Pass();
    return PassingFolder::Collect(completions, wait);
  }

 private:
  Gate& gate_;
};

// Processor time of the loop's thread; -1 where there is none.
int64_t LoopNanoseconds() {
  DIR* threads = opendir("/proc/self/task");
  int64_t spent = -1;
  while (const dirent* entry = readdir(threads)) {
    std::string name;
    std::ifstream(fmt::format("/proc/self/task/{}/comm", entry->d_name)) >>
        name;
    if (name != "winnow-engine") continue;
    // As pthread_getcpuclockid makes it of a thread.
    const auto clock = static_cast<clockid_t>(
        ~static_cast<unsigned>(std::stoi(entry->d_name)) << 3 | 6);
    timespec time{};
    clock_gettime(clock, &time);
    spent = time.tv_sec * 1'000'000'000 + time.tv_nsec;
  }
  closedir(threads);
  return spent;
}

// Whoever spins is never seen so.
bool ComesToRest() {
  const auto end = Clock::now() + kLong;
  while (Clock::now() < end) {
    const int64_t before = LoopNanoseconds();
    std::this_thread::sleep_for(kWhile);
    if (before >= 0 && LoopNanoseconds() == before) return true;
  }
  return false;
}

class EngineLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
    backend_ = MakeCpuBackend({.num_threads = 1});
    page_bytes_ =
        kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  }
  // What the disk's thread waits in goes on.
  void TearDown() override {
    gate_.Open();
    loop_.reset();
    EXPECT_EQ(num_failures_, num_expected_failures_);
  }

  // As the next process would have it.
  void Start(bool has_disk = true) {
    loop_.reset();
    EngineOptions options = {.max_model_len = 512,
                             .max_num_batched_tokens = 64,
                             .device_kv_bytes = 40 * page_bytes_,
                             .disk_staging_bytes = 2 * page_bytes_,
                             .disk_patience = patience_,
                             .batch_invariant = true};
    std::unique_ptr<DiskStore> store;
    if (has_disk) {
      const DiskSlotLayout layout(page_bytes_);
      store =
          DiskStore::Open(std::make_unique<GatedFolder>(disk_.Open(), gate_),
                          {.header = {.made_with = {{"model", "tiny"}},
                                      .piece_bytes = page_bytes_},
                           .max_bytes = 64 * layout.slot_bytes})
              .value();
    }
    auto engine =
        Engine::Create(*backend_, *model_, options, std::move(store)).value();
    engine_ = engine.get();
    loop_ = std::make_unique<EngineLoop>(
        std::move(engine), LoopLimits{.max_open = 16, .max_open_tokens = 600},
        metrics_,
        LoopListeners{.on_failure = [this](const Error&) { ++num_failures_; },
                      .on_disk_failure =
                          [this](const std::string& line) {
                            ++num_lines_;
                            EXPECT_NE(line.find("pages of KV"), line.npos)
                                << line;
                          }});
  }

  // Long enough for four pages.
  Request Ask(int which) const {
    Request request;
    for (int i = 0; i < 150; ++i) {
      request.prompt.push_back(TinyToken(golden_, 5 * which, i));
    }
    request.max_tokens = 6;
    request.sampling.temperature = 0;
    return request;
  }

  // A request on its way, and what came of it.
  struct Asked {
    Ticket ticket{};
    std::shared_ptr<TokenFeed> feed;
    std::vector<int32_t> tokens = {};
    std::optional<Completion> completion = {};
  };
  Asked Send(Request request) {
    Asked asked = {.feed = std::make_shared<TokenFeed>(metrics_)};
    std::vector<Submission> submissions;
    submissions.push_back({std::move(request), asked.feed});
    asked.ticket = loop_->Submit(std::move(submissions)).value().front();
    return asked;
  }
  // False where it does not end in time.
  static bool Await(Asked& asked) {
    const auto end = Clock::now() + kLong;
    while (!asked.completion && Clock::now() < end) {
      FeedEvents events = asked.feed->Take();
      for (const GeneratedToken& token : events.tokens) {
        asked.tokens.push_back(token.token_id);
      }
      asked.completion = std::move(events.completion);
      if (events.empty()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    return asked.completion.has_value();
  }
  Asked Run(Request request) {
    Asked asked = Send(std::move(request));
    EXPECT_TRUE(Await(asked));
    return asked;
  }
  std::vector<int32_t> TokensAlone(int which) {
    EXPECT_TRUE(loop_ == nullptr);
    Start(/*has_disk=*/false);
    const std::vector<int32_t> tokens = Run(Ask(which)).tokens;
    loop_.reset();
    return tokens;
  }
  int NumCached(int which) {
    return Run(Ask(which)).completion.value().num_cached_tokens;
  }

  TinyCase golden_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Backend> backend_;
  int64_t page_bytes_ = 0;
  FaultyDisk disk_{1};
  Gate gate_;
  Metrics metrics_{"tiny"};
  std::chrono::milliseconds patience_ = std::chrono::hours(1);
  std::atomic<int> num_lines_ = 0;
  std::atomic<int> num_failures_ = 0;
  int num_expected_failures_ = 0;
  Engine* engine_ = nullptr;  // of the loop's thread
  std::unique_ptr<EngineLoop> loop_;
};

// As where there is no memory to say that it is to be cancelled.
TEST_F(EngineLoopTest, WhoseReaderHasLeftEndsWithTheNextToken) {
  Start(/*has_disk=*/false);
  Request endless = Ask(1);
  endless.max_tokens = 360;
  Asked asked = Send(std::move(endless));
  asked.feed->Leave();
  ASSERT_TRUE(Await(asked));
  EXPECT_LE(asked.completion->num_generated_tokens, 1);
}

// 150 of each: four are in, whatever there is of places.
TEST_F(EngineLoopTest, PromptsTogetherAreBounded) {
  Start(/*has_disk=*/false);
  Request endless = Ask(1);
  endless.max_tokens = 360;
  std::vector<Asked> all;
  for (int i = 0; i < 4; ++i) all.push_back(Send(endless));
  std::vector<Submission> more;
  more.push_back({Ask(2), std::make_shared<TokenFeed>(metrics_)});
  const auto refused = loop_->Submit(std::move(more));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(
      refused.error().message.find("600 tokens together, are 600 and 150"),
      std::string::npos)
      << refused.error().message;
  for (Asked& asked : all) {
    loop_->Cancel(asked.ticket);
    ASSERT_TRUE(Await(asked));
  }
  // What is larger alone is taken where it is alone.
  ASSERT_TRUE(loop_->AwaitRest(kLong));
  std::vector<Submission> many;
  for (int i = 0; i < 5; ++i) {
    many.push_back({Ask(i), std::make_shared<TokenFeed>(metrics_)});
  }
  EXPECT_TRUE(loop_->Submit(std::move(many)).ok());
}

// Two pages pass at a time, so that all goes out in several turns.
TEST_F(EngineLoopTest, WhatWasReadIsWrittenWhileNobodyAsks) {
  const std::vector<int32_t> alone = TokensAlone(1);
  Start();
  Run(Ask(1));
  Run(Ask(2));
  ASSERT_TRUE(loop_->AwaitRest(kLong));
  Start();
  const Asked again = Run(Ask(1));
  EXPECT_EQ(again.completion->num_cached_tokens, 128);
  EXPECT_EQ(again.tokens, alone);
  EXPECT_EQ(NumCached(2), 128);
  EXPECT_EQ(num_lines_, 0);
}

TEST_F(EngineLoopTest, ItIsAtRestWhereThereIsNoDisk) {
  Start(/*has_disk=*/false);
  EXPECT_TRUE(loop_->AwaitRest(kLong));
  Run(Ask(1));
  EXPECT_TRUE(loop_->AwaitRest(kLong));
}

TEST_F(EngineLoopTest, NobodyWaitsForADiskThatIsSilent) {
  const std::vector<int32_t> alone = TokensAlone(2);
  Start();
  gate_.Shut();
  Run(Ask(1));
  EXPECT_FALSE(loop_->AwaitRest(kWhile));
  EXPECT_EQ(Run(Ask(2)).tokens, alone);
  gate_.Open();
  EXPECT_TRUE(loop_->AwaitRest(kLong));
}

// Neither while there is nothing to write, nor while that does not get on, nor
// while a request waits for its pages.
TEST_F(EngineLoopTest, ItSleepsWhileThereIsNothingToDo) {
  Start();
  EXPECT_TRUE(ComesToRest());
  Run(Ask(1));
  ASSERT_TRUE(loop_->AwaitRest(kLong));
  EXPECT_TRUE(ComesToRest());
  gate_.Shut();
  Run(Ask(2));
  EXPECT_TRUE(ComesToRest());
  gate_.Open();
  Start();
  gate_.Shut();
  Asked waits = Send(Ask(1));
  EXPECT_TRUE(ComesToRest());
  EXPECT_TRUE(waits.feed->Take().tokens.empty());
  gate_.Open();
  ASSERT_TRUE(Await(waits));
  EXPECT_EQ(waits.completion->num_cached_tokens, 128);
}

// One that waits for its pages holds up neither others nor its own deadline.
TEST_F(EngineLoopTest, WhoWaitsForTheDiskIsLateInTime) {
  Start();
  Run(Ask(1));
  ASSERT_TRUE(loop_->AwaitRest(kLong));
  Start();
  gate_.Shut();
  Request request = Ask(1);
  request.deadline = {.at = Clock::now() + kWhile};
  Asked late = Send(request);
  Asked patient = Send(Ask(1));
  ASSERT_TRUE(Await(late));
  EXPECT_EQ(late.completion->reason, FinishReason::kError);
  EXPECT_EQ(late.completion->error->code, ErrorCode::kCancelled);
  Run(Ask(2));
  EXPECT_TRUE(patient.feed->Take().tokens.empty());
  gate_.Open();
  EXPECT_TRUE(Await(patient));
}

// It says so, and who waits is computed; once it answers it is as good as ever.
TEST_F(EngineLoopTest, ASilentDiskIsWaitedForNoMore) {
  const std::vector<int32_t> alone = TokensAlone(1);
  Start();
  Run(Ask(1));
  ASSERT_TRUE(loop_->AwaitRest(kLong));
  patience_ = kWhile;
  Start();
  gate_.Shut();
  const Asked asked = Run(Ask(1));
  EXPECT_EQ(asked.tokens, alone);
  EXPECT_EQ(asked.completion->num_cached_tokens, 0);
  EXPECT_TRUE(ComesToRest());
  EXPECT_EQ(num_lines_, 1);
  gate_.Open();
  EXPECT_TRUE(loop_->AwaitRest(kLong));
  Start();
  EXPECT_EQ(NumCached(1), 128);
}

// Those that wait for their turn too.
TEST_F(EngineLoopTest, WhoIsInAStepWithoutMemoryIsTold) {
  auto hooked = std::make_unique<HookedBackend>(std::move(backend_));
  hooked->pre_sample = [](const SampleArgs&) { throw std::bad_alloc(); };
  backend_ = std::move(hooked);
  num_expected_failures_ = 1;
  Start(/*has_disk=*/false);
  std::vector<Submission> submissions;
  std::vector<Asked> all(3);
  for (Asked& asked : all) {
    asked.feed = std::make_shared<TokenFeed>(metrics_);
    submissions.push_back({Ask(1), asked.feed});
  }
  ASSERT_TRUE(loop_->Submit(std::move(submissions)).ok());
  for (Asked& asked : all) {
    ASSERT_TRUE(Await(asked));
    EXPECT_EQ(asked.completion->reason, FinishReason::kError);
    EXPECT_EQ(asked.completion->error->message,
              "memory does not suffice for a step");
  }
  EXPECT_FALSE(loop_->healthy());
  // The engine has them until it ends, and tells their feeds then.
  ASSERT_TRUE(loop_->AwaitRest(kLong));
  for (const Asked& asked : all) EXPECT_GT(asked.feed.use_count(), 1);
}

TEST_F(EngineLoopTest, WhoWaitsForTheDiskMayLeave) {
  Start();
  Run(Ask(1));
  ASSERT_TRUE(loop_->AwaitRest(kLong));
  Start();
  gate_.Shut();
  Asked left = Send(Ask(1));
  ASSERT_TRUE(ComesToRest());
  loop_->Cancel(left.ticket);
  ASSERT_TRUE(Await(left));
  EXPECT_EQ(left.completion->reason, FinishReason::kCancelled);
  gate_.Open();
  EXPECT_TRUE(loop_->AwaitRest(kLong));
  EXPECT_EQ(engine_->kv().num_sequences(), 0);
}

// What has not begun to be written is dropped, and the folder is as good as
// ever.
TEST_F(EngineLoopTest, ItEndsBeforeAllIsWritten) {
  const std::vector<int32_t> alone = TokensAlone(1);
  Start();
  gate_.Shut();
  Run(Ask(1));
  Run(Ask(2));
  EXPECT_FALSE(loop_->AwaitRest(std::chrono::seconds(0)));
  std::thread opens([this] {
    while (LoopNanoseconds() >= 0) std::this_thread::sleep_for(kWhile);
    gate_.Open();
  });
  Start();
  opens.join();
  const Asked again = Run(Ask(1));
  EXPECT_LT(again.completion->num_cached_tokens, 128);
  EXPECT_EQ(again.tokens, alone);
}

TEST_F(EngineLoopTest, AFaultIsToldAndAllGoesOn) {
  const std::vector<int32_t> alone = TokensAlone(1);
  for (const FolderFaults& faults :
       {FolderFaults{.write_error = 1}, FolderFaults{.is_full = true},
        FolderFaults{.is_read_only = true}, FolderFaults{.read_error = 1}}) {
    disk_.faults() = {};
    num_lines_ = 0;
    if (faults.read_error > 0) {
      Start();
      Run(Ask(1));
      ASSERT_TRUE(loop_->AwaitRest(kLong));
    }
    Start();
    disk_.faults() = faults;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(Ask(1)).tokens, alone);
    EXPECT_TRUE(loop_->AwaitRest(kLong));
    EXPECT_EQ(num_lines_, 1);
    loop_.reset();
  }
}

}  // namespace
}  // namespace winnow
