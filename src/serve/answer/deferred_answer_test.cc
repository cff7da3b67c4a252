#include "serve/answer/deferred_answer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>

#include "base/check.h"

namespace winnow {
namespace {

using Answer = std::unique_ptr<HttpAnswer>;
using std::chrono::steady_clock;

Answer Whole(std::string body, int status = 200) {
  return std::make_unique<WholeAnswer>(HttpHead{.status = status},
                                       std::move(body));
}

// An answer that counts its ends.
class Counted : public WholeAnswer {
 public:
  explicit Counted(int& num_ends)
      : WholeAnswer(HttpHead{}, "counted"), num_ends_(num_ends) {}
  ~Counted() override { ++num_ends_; }

 private:
  int& num_ends_;
};

Deadline In(std::chrono::milliseconds time) {
  return {.at = steady_clock::now() + time, .limit = "the limit"};
}

constexpr std::chrono::milliseconds kLongAgo = -2 * kMaxLateness;

class DeferredAnswerTest : public testing::Test {
 protected:
  DeferredAnswerTest() {
    CHECK(pipe2(ends_, O_NONBLOCK) == 0);
    log_ = std::make_unique<RequestLog>(ends_[1], LogFormat::kText,
                                        LogLevel::kInfo);
  }
  ~DeferredAnswerTest() override {
    log_.reset();
    close(ends_[0]);
    close(ends_[1]);
  }

  std::unique_ptr<DeferredAnswer> Make(DeferredWork::Do work) {
    work_ = std::make_shared<DeferredWork>(std::move(work), Whole("no memory"));
    const auto record_of = [](const char* path) {
      RequestRecord record;
      record.path = path;
      return std::make_shared<RequestRecord>(std::move(record));
    };
    auto answer = std::make_unique<DeferredAnswer>(
        work_,
        [](const Deadline& deadline) { return Whole(deadline.limit, 504); },
        DeferredAnswer::Records{record_of("/own"), record_of("/work"),
                                log_.get()});
    answer->SetWake([this] { ++num_wakes_; });
    return answer;
  }
  // What the log has, which ends.
  std::string Lines() {
    log_.reset();
    std::string lines(4096, 0);
    const ssize_t num_bytes = read(ends_[0], lines.data(), lines.size());
    lines.resize(static_cast<size_t>(std::max<ssize_t>(num_bytes, 0)));
    return lines;
  }

  int ends_[2] = {-1, -1};
  std::unique_ptr<RequestLog> log_;
  std::shared_ptr<DeferredWork> work_;
  int num_wakes_ = 0;
};

TEST_F(DeferredAnswerTest, WhatComesOfTheWorkIsTheAnswer) {
  auto answer = Make([](DeferredWork&) { return Whole("done"); });
  EXPECT_TRUE(answer->Take().empty());
  EXPECT_FALSE(answer->due());
  work_->Run();
  EXPECT_EQ(num_wakes_, 1);
  const HttpPart part = answer->Take();
  EXPECT_EQ(part.body, "done");
  EXPECT_TRUE(part.last);
  answer.reset();
  const std::string lines = Lines();
  EXPECT_NE(lines.find("/work 200"), std::string::npos) << lines;
  EXPECT_EQ(std::ranges::count(lines, '\n'), 1) << lines;
}

TEST_F(DeferredAnswerTest, WorkThatFindsNoMemoryIsToldSo) {
  auto answer = Make([](DeferredWork&) -> Answer { throw std::bad_alloc(); });
  work_->Run();
  EXPECT_EQ(num_wakes_, 1);
  EXPECT_EQ(answer->Take().body, "no memory");
  answer.reset();
  const std::string lines = Lines();
  EXPECT_NE(lines.find("/work"), std::string::npos) << lines;
}

TEST_F(DeferredAnswerTest, WhoIsLateIsToldBeforeTheWorkIsDone) {
  int num_ends = 0;
  const Deadline deadline = In(kLongAgo);
  std::unique_ptr<DeferredAnswer> answer;
  answer = Make([&](DeferredWork& work) -> Answer {
    EXPECT_TRUE(answer->Take().empty());
    work.SetDeadline(deadline);
    EXPECT_EQ(num_wakes_, 1);
    EXPECT_EQ(answer->due(), deadline.at + kMaxLateness);
    const HttpPart part = answer->Take();
    EXPECT_EQ(part.head->status, 504);
    EXPECT_EQ(part.body, "the limit");
    EXPECT_TRUE(part.last);
    answer.reset();
    return std::make_unique<Counted>(num_ends);
  });
  work_->Run();
  EXPECT_EQ(num_ends, 1);
  EXPECT_EQ(num_wakes_, 1);
  const std::string lines = Lines();
  EXPECT_NE(lines.find("/own 504"), std::string::npos) << lines;
  EXPECT_EQ(std::ranges::count(lines, '\n'), 1) << lines;
}

TEST_F(DeferredAnswerTest, ADeadlineThatIsKeptIsForgotten) {
  auto answer = Make([](DeferredWork& work) {
    work.SetDeadline(In(std::chrono::hours(1)));
    return Whole("done");
  });
  work_->Run();
  EXPECT_TRUE(answer->due());
  EXPECT_EQ(answer->Take().body, "done");
  EXPECT_FALSE(answer->due());
}

TEST_F(DeferredAnswerTest, WhatNobodyAwaitsDoesNotBegin) {
  const auto held = std::make_shared<int>(0);
  bool has_begun = false;
  auto answer = Make([&has_begun, held](DeferredWork&) {
    has_begun = true;
    return Whole("done");
  });
  EXPECT_EQ(held.use_count(), 2);
  answer.reset();
  EXPECT_EQ(held.use_count(), 1);  // Also what the request held.
  work_->Run();
  EXPECT_FALSE(has_begun);
  EXPECT_EQ(num_wakes_, 0);
  const std::string lines = Lines();
  EXPECT_NE(lines.find("/own 0"), std::string::npos) << lines;
  EXPECT_EQ(std::ranges::count(lines, '\n'), 1) << lines;
}

// What wakes a connection is its server's, which may end before the work.
TEST_F(DeferredAnswerTest, WhoLeftIsNotHeld) {
  const auto held = std::make_shared<int>(0);
  std::unique_ptr<DeferredAnswer> answer;
  answer = Make([&](DeferredWork&) {
    answer.reset();
    EXPECT_EQ(held.use_count(), 1);
    return Whole("done");
  });
  answer->SetWake([held] {});
  EXPECT_GT(held.use_count(), 1);
  work_->Run();
}

// So that it need not be waited for where it waits, nor done to its end.
TEST_F(DeferredAnswerTest, WhoLeavesIsHeardOf) {
  int num_withdrawn = 0;
  std::unique_ptr<DeferredAnswer> answer;
  answer = Make([&](DeferredWork& work) {
    EXPECT_FALSE(work.is_left());
    answer.reset();
    EXPECT_TRUE(work.is_left());
    return Whole("done");
  });
  work_->SetWithdraw([&] { ++num_withdrawn; });
  work_->Run();
  EXPECT_EQ(num_withdrawn, 1);
}

// Who is late has been told so, and waits no longer.
TEST_F(DeferredAnswerTest, WhoIsLateHasLeftTheWork) {
  int num_withdrawn = 0;
  auto answer = Make([](DeferredWork&) { return Whole("done"); });
  work_->SetWithdraw([&] { ++num_withdrawn; });
  work_->SetDeadline(In(kLongAgo));
  EXPECT_FALSE(work_->is_left());
  EXPECT_EQ(answer->Take().head->status, 504);
  EXPECT_TRUE(work_->is_left());
  EXPECT_EQ(num_withdrawn, 1);
}

TEST_F(DeferredAnswerTest, WhatComesTooLateEndsUnsent) {
  int num_ends = 0;
  auto answer =
      Make([&](DeferredWork&) { return std::make_unique<Counted>(num_ends); });
  work_->Run();
  answer.reset();  // Before it was taken.
  EXPECT_EQ(num_ends, 1);
  EXPECT_EQ(std::ranges::count(Lines(), '\n'), 1);
}

}  // namespace
}  // namespace winnow
