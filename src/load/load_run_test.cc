#include "load/load_run.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>

#include "load/scripted_server.h"

namespace winnow {
namespace {

using Script = ScriptedServer::Script;
using Step = ScriptedServer::Step;

std::string TextEvent(const std::string& text) {
  return "data: {\"choices\":[{\"index\":0,\"text\":\"" + text +
         "\",\"finish_reason\":null}]}\n\n";
}
const std::string kFinish =
    "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n";
const std::string kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,"
    "\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":4}}}"
    "\n\n";
const std::string kDone = "data: [DONE]\n\n";

// Three tokens, as a server streams them.
Script GoodStream(int wait_ms = 0) {
  return {.steps = {{StreamHead() + StreamChunk(TextEvent("one")), wait_ms},
                    {StreamChunk(TextEvent(" two")), wait_ms},
                    {StreamChunk(TextEvent(" three")), wait_ms},
                    {StreamChunk(kFinish) + StreamChunk(kUsage) +
                     StreamChunk(kDone) + StreamEnd()}}};
}

LoadRunOptions OptionsOf(const ScriptedServer& server) {
  LoadRunOptions options;
  options.target.url = {.host = "127.0.0.1", .port = server.port()};
  options.target.timeout = std::chrono::seconds(20);
  return options;
}

std::vector<LoadRequest> Requests(size_t count, double gap_s = 0) {
  std::vector<LoadRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    requests.push_back({.due_s = static_cast<double>(i) * gap_s,
                        .body = "{\"number\":" + std::to_string(i) + "}"});
  }
  return requests;
}

LoadResult RunLoad(const LoadRunOptions& options, size_t count) {
  auto run = LoadRun::Create(options);
  CHECK(run.ok(), "{}", run.error().message);
  return (*run)->Run(Requests(count), [](const LoadCounts&) {});
}

// What becomes of one request that is answered so.
LoadOutcome OutcomeOf(const Script& script, bool streams = true,
                      int timeout_ms = 20000) {
  ScriptedServer server([&](size_t, const std::string&) { return script; });
  LoadRunOptions options = OptionsOf(server);
  options.target.streams = streams;
  options.target.timeout = std::chrono::milliseconds(timeout_ms);
  const LoadResult result = RunLoad(options, 1);
  EXPECT_EQ(result.outcomes.size(), 1u);
  return result.outcomes.at(0);
}

void ExpectGood(const LoadOutcome& outcome) {
  EXPECT_TRUE(outcome.answered())
      << FaultName(outcome) << ": " << outcome.fault_text;
  EXPECT_EQ(outcome.text, "one two three");
  EXPECT_EQ(outcome.prompt_tokens, 11);
  EXPECT_EQ(outcome.cached_tokens, 4);
  EXPECT_EQ(outcome.completion_tokens, 3);
  EXPECT_TRUE(outcome.tokens_told);
}

TEST(LoadRunTest, AStreamsTimes) {
  const LoadOutcome outcome = OutcomeOf(GoodStream(/*wait_ms=*/60));
  ExpectGood(outcome);
  ASSERT_TRUE(outcome.first_token_s.has_value());
  EXPECT_GE(*outcome.first_token_s, 0.059);
  ASSERT_EQ(outcome.gaps_s.size(), 2u);
  double sum = *outcome.first_token_s;
  // Each alone may be short, where this thread had to wait for a processor.
  for (const double gap : outcome.gaps_s) sum += gap;
  EXPECT_GE(sum, 0.179);
  EXPECT_GE(outcome.latency_s, sum);
  EXPECT_LT(outcome.latency_s, 10);
}

TEST(LoadRunTest, AStreamInSingleBytes) {
  std::string bytes;
  for (const Step& step : GoodStream().steps) bytes += step.bytes;
  Script script;
  for (const char byte : bytes) script.steps.push_back({std::string(1, byte)});
  ExpectGood(OutcomeOf(script));
}

TEST(LoadRunTest, AWholeAnswer) {
  const LoadOutcome outcome = OutcomeOf(
      {.steps = {{WholeResponse(
           200, "application/json",
           "{\"choices\":[{\"text\":\"one two three\",\"finish_reason\":"
           "\"stop\"}],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":3,"
           "\"prompt_tokens_details\":{\"cached_tokens\":4}}}")}}},
      /*streams=*/false);
  ExpectGood(outcome);
  EXPECT_FALSE(outcome.first_token_s.has_value());
  EXPECT_GT(outcome.latency_s, 0);
}

TEST(LoadRunTest, WhatBreaksOffIsBroken) {
  const std::string begun = StreamHead() + StreamChunk(TextEvent("one"));
  const std::string length =
      "HTTP/1.1 200 OK\r\nContent-Type: "
      "text/event-stream\r\nContent-Length: 999\r\n\r\n";
  for (const Script& script :
       {Script{.steps = {{begun}}, .closes = true},
        Script{.steps = {{begun}}, .resets = true},
        Script{.steps = {{begun + "40\r\ndata: {"}}, .closes = true},
        Script{.steps = {{begun + StreamEnd()}}},
        Script{.steps = {{length + TextEvent("one")}}, .closes = true},
        Script{.steps = {{"HTTP/1.1 200 OK\r\nContent-"}}, .closes = true},
        Script{.steps = {{""}}, .closes = true}}) {
    const LoadOutcome outcome = OutcomeOf(script);
    EXPECT_EQ(outcome.fault, Fault::kBrokenStream)
        << FaultName(outcome) << ": " << outcome.fault_text;
    EXPECT_FALSE(outcome.fault_text.empty());
  }
}

TEST(LoadRunTest, AStreamThatFinishesMayLackItsLastWord) {
  ExpectGood(OutcomeOf(
      {.steps = {{StreamHead() + StreamChunk(TextEvent("one two three")) +
                  StreamChunk(kFinish) + StreamChunk(kUsage) + StreamEnd()}}}));
}

TEST(LoadRunTest, AStatusIsTold) {
  const LoadOutcome outcome =
      OutcomeOf({.steps = {{WholeResponse(
                     500, "application/json",
                     "{\"error\":{\"message\":\"out of pages\"}}")}}});
  EXPECT_EQ(FaultName(outcome), "status 500");
  EXPECT_EQ(outcome.fault_text, "out of pages");
  EXPECT_EQ(
      OutcomeOf({.steps = {{WholeResponse(429, "text/plain", "slow\ndown")}}})
          .fault_text,
      "slow down");
}

TEST(LoadRunTest, WhatIsNoAnswerIsTold) {
  for (const std::string& bytes :
       {StreamHead() + StreamChunk("data: {\"choices\": [\n\n") + StreamEnd(),
        StreamHead() + StreamChunk("data: 7\n\n") + StreamEnd(),
        StreamHead() + StreamChunk("data: {\"a\": 1}\n\n") + StreamEnd(),
        WholeResponse(200, "text/html", "<html>"),
        std::string("SSH-2.0-OpenSSH\r\n\r\n")}) {
    const LoadOutcome outcome = OutcomeOf({.steps = {{bytes}}, .closes = true});
    EXPECT_EQ(outcome.fault, Fault::kBadAnswer)
        << bytes << ": " << FaultName(outcome) << ": " << outcome.fault_text;
  }
}

TEST(LoadRunTest, AnErrorInTheStreamIsTheServers) {
  const LoadOutcome outcome = OutcomeOf(
      {.steps = {{StreamHead() + StreamChunk(TextEvent("one")) +
                  StreamChunk("data: {\"error\":{\"message\":\"lost\"}}\n\n") +
                  StreamChunk(kDone) + StreamEnd()}}});
  EXPECT_EQ(FaultName(outcome), "server error");
  EXPECT_EQ(outcome.fault_text, "lost");
}

TEST(LoadRunTest, WhoNeverAnswersIsTimedOut) {
  for (const Script& script :
       {Script{.hangs = true},
        Script{.steps = {{StreamHead() + StreamChunk(TextEvent("one"))}},
               .hangs = true}}) {
    const LoadOutcome outcome = OutcomeOf(script, /*streams=*/true, 150);
    EXPECT_EQ(FaultName(outcome), "timed out");
    EXPECT_GE(outcome.latency_s, 0.15);
  }
}

// Events are read more slowly than they are sent, so that no read waits.
TEST(LoadRunTest, WhoNeverPausesIsTimedOut) {
  std::string events;
  for (int i = 0; i < 100'000; ++i) events += TextEvent("x");
  const LoadOutcome outcome =
      OutcomeOf({.steps = {{StreamHead() + StreamChunk(events) +
                            StreamChunk(kDone) + StreamEnd()}}},
                /*streams=*/true, 10);
  EXPECT_EQ(FaultName(outcome), "timed out");
}

TEST(LoadRunTest, WhoTalksOnBehindTheEndIsHungUpOn) {
  Script script = {
      .steps = {{StreamHead() + StreamChunk(TextEvent("one")) +
                 StreamChunk(TextEvent(" two")) +
                 StreamChunk(TextEvent(" three")) + StreamChunk(kFinish) +
                 StreamChunk(kUsage) + StreamChunk(kDone)},
                {StreamChunk(":" + std::string(1 << 20, 'x'))}},
      .hangs = true};
  const auto began = std::chrono::steady_clock::now();
  ExpectGood(OutcomeOf(script));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

TEST(LoadRunTest, NobodyThere) {
  LoadRunOptions options;
  std::unique_ptr<LoadRun> run;
  {
    ScriptedServer server([](size_t, const std::string&) { return Script{}; });
    options = OptionsOf(server);
    run = LoadRun::Create(options).value();
  }
  const LoadResult result = run->Run(Requests(2), [](const LoadCounts&) {});
  ASSERT_EQ(result.outcomes.size(), 2u);
  EXPECT_EQ(FaultName(result.outcomes[1]), "refused");
  const auto again = LoadRun::Create(options);
  ASSERT_FALSE(again.ok());
  EXPECT_TRUE(again.error().message.starts_with("no server at 127.0.0.1:"));
}

// The server answers nobody before all have asked: a client that waits for an
// answer before it sends on would never end.
TEST(LoadRunTest, ASlowServerHoldsNobodyBack) {
  constexpr size_t kRequests = 60;
  std::mutex mutex;
  std::condition_variable all_there;
  size_t num_there = 0;
  const auto give_up =
      std::chrono::steady_clock::now() + std::chrono::seconds(15);
  ScriptedServer server([&](size_t, const std::string&) {
    std::unique_lock lock(mutex);
    if (++num_there == kRequests) all_there.notify_all();
    all_there.wait_until(lock, give_up, [&] { return num_there == kRequests; });
    return GoodStream();
  });
  auto run = LoadRun::Create(OptionsOf(server)).value();
  size_t num_ticks = 0;
  const LoadResult result = run->Run(Requests(kRequests, 0.002),
                                     [&](const LoadCounts&) { ++num_ticks; });
  ASSERT_EQ(result.outcomes.size(), kRequests);
  for (size_t i = 0; i < kRequests; ++i) {
    const LoadOutcome& outcome = result.outcomes[i];
    ExpectGood(outcome);
    EXPECT_DOUBLE_EQ(outcome.due_s, static_cast<double>(i) * 0.002);
    EXPECT_GE(outcome.sent_s, outcome.due_s);
    EXPECT_LT(outcome.sent_s, outcome.due_s + 5);
  }
  EXPECT_LT(result.seconds, 14);
  EXPECT_GT(num_ticks, 0u);
}

TEST(LoadRunTest, NoMoreAtOnceThanAllowed) {
  std::atomic<int> at_once = 0, most = 0;
  ScriptedServer server([&](size_t, const std::string&) {
    const int now = ++at_once;
    if (now > most) most = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    --at_once;
    return GoodStream();
  });
  LoadRunOptions options = OptionsOf(server);
  options.max_concurrency = 2;
  const LoadResult result = RunLoad(options, 12);
  ASSERT_EQ(result.outcomes.size(), 12u);
  for (const LoadOutcome& outcome : result.outcomes) ExpectGood(outcome);
  EXPECT_EQ(most, 2);
  // One of them is Create's.
  EXPECT_LE(server.num_connections(), 3u);
  EXPECT_GE(result.outcomes.back().sent_s, 0.045);
}

TEST(LoadRunTest, SendsWhatItIsGiven) {
  ScriptedServer server(
      [](size_t, const std::string&) { return GoodStream(); });
  LoadRunOptions options = OptionsOf(server);
  options.max_concurrency = 1;
  options.target.url.path = "/base";
  options.target.headers = {{"Authorization", "Bearer secret"}};
  ExpectGood(RunLoad(options, 2).outcomes.at(1));
  const std::vector<std::string> requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_TRUE(
      requests[0].starts_with("POST /base/v1/completions HTTP/1.1\r\n"));
  EXPECT_NE(requests[0].find("\r\nAuthorization: Bearer secret\r\n"),
            std::string::npos);
  EXPECT_NE(requests[0].find("\r\nContent-Type: application/json\r\n"),
            std::string::npos);
  EXPECT_TRUE(requests[0].ends_with("\r\n\r\n{\"number\":0}"));
  EXPECT_TRUE(requests[1].ends_with("\r\n\r\n{\"number\":1}"));
}

// As a server does whose connections may idle only so long.
TEST(LoadRunTest, AnotherConnectionWhereOneHasEnded) {
  ScriptedServer server([](size_t, const std::string&) {
    Script script = GoodStream();
    script.closes = true;
    return script;
  });
  LoadRunOptions options = OptionsOf(server);
  auto run = LoadRun::Create(options).value();
  const LoadResult result =
      run->Run(Requests(4, 0.05), [](const LoadCounts&) {});
  for (const LoadOutcome& outcome : result.outcomes) ExpectGood(outcome);
}

TEST(LoadRunTest, StoppedItTellsWhatThereIs) {
  ScriptedServer server([](size_t number, const std::string&) {
    return number == 0 ? GoodStream() : Script{.hangs = true};
  });
  auto run = LoadRun::Create(OptionsOf(server)).value();
  std::vector<LoadRequest> requests = Requests(3, 0.05);
  requests.push_back({.due_s = 1e6, .body = "{}"});
  const LoadResult result =
      run->Run(std::move(requests), [&](const LoadCounts& counts) {
        if (counts.sent == 3) run->Stop();
      });
  ASSERT_EQ(result.outcomes.size(), 3u);
  ExpectGood(result.outcomes[0]);
  EXPECT_EQ(result.outcomes[1].fault, Fault::kInterrupted);
  EXPECT_EQ(result.outcomes[2].fault, Fault::kInterrupted);
  EXPECT_LT(result.seconds, 15);
}

TEST(LoadRunTest, AsksOnce) {
  ScriptedServer server([](size_t, const std::string&) {
    return Script{.steps = {{WholeResponse(404, "text/plain", "none")}}};
  });
  auto run = LoadRun::Create(OptionsOf(server)).value();
  for (int i = 0; i < 2; ++i) {
    const auto answer = run->Ask("GET", "/v1/models", "");
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->status, 404);
    EXPECT_EQ(answer->body, "none");
  }
}

}  // namespace
}  // namespace winnow
