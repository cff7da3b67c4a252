#include "serve/answer/completion_answer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "serve/answer/completion_json.h"
#include "source_dir.h"

namespace winnow {
namespace {

using nlohmann::json;

GeneratedToken TokenOf(int32_t id) {
  return {.token_id = id, .logprob = 0, .top = {}};
}

// Of one token for each printable character.
Tokenizer Characters() {
  json vocab = json::object();
  for (char c = ' '; c <= '~'; ++c) vocab[std::string(1, c)] = c - ' ';
  const json document = {{"version", "1.0"},
                         {"added_tokens", json::array()},
                         {"decoder", {{"type", "Fuse"}}},
                         {"model",
                          {{"type", "BPE"},
                           {"vocab", std::move(vocab)},
                           {"merges", json::array()}}}};
  return Tokenizer::FromJson("characters", document.dump(), {}).value();
}

// Answers fed by hand, as an engine would.
class CompletionAnswerTest : public testing::Test {
 protected:
  CompletionAnswerTest()
      : tokenizer_(Tokenizer::Load(std::filesystem::path(WINNOW_SOURCE_DIR) /
                                   "lab/models/winnow-lab")
                       .value()),
        ids_(tokenizer_.Encode("points to Keleska . the", false).value()) {}

  // `tools`: that a chat may call, as objects between tags.
  std::unique_ptr<CompletionAnswer> Make(
      AnswerForm form, int num_choices, std::vector<std::string> stops = {},
      std::vector<std::string> tools = {},
      std::optional<EchoedPrompt> echo = {}) {
    const bool is_chat = !tools.empty() || begins_thought_;
    const Tokenizer& tokenizer = is_chat ? characters_ : tokenizer_;
    std::vector<AnswerSource> sources;
    form.style = std::make_unique<CompletionStyle>(
        AnswerIdentity{.endpoint = is_chat ? Endpoint::kChatCompletions
                                           : Endpoint::kCompletions},
        usage_);
    form.stops = stops;
    for (int i = 0; i < num_choices; ++i) {
      feeds_.push_back(std::make_shared<TokenFeed>(metrics_));
      Detokenizer detokenizer(tokenizer, form.marker_ids.empty());
      if (echo) {
        EXPECT_TRUE(detokenizer.Follow(echo->token_ids).ok());
      }
      sources.push_back(
          {.ticket = Ticket{static_cast<uint64_t>(i + 1)},
           .feed = feeds_.back(),
           .text = AnswerText(std::move(detokenizer),
                              StopMatcher::Create(stops).value())});
      sources.back().echo = echo;
      sources.back().prompt_token_ids = told_ids_;
      if (begins_thought_) sources.back().thoughts.emplace(*begins_thought_);
      if (!tools.empty()) {
        std::vector<CallableTool> callable;
        for (const std::string& name : tools) callable.push_back({name, ""});
        sources.back().calls.emplace(
            ToolCallFormat::kTagged,
            std::make_shared<const ParameterTypes>(callable));
      }
    }
    return std::make_unique<CompletionAnswer>(
        std::move(form), std::move(sources),
        [this](Ticket ticket) { cancelled_.push_back(ticket); }, tokenizer,
        metrics_);
  }
  void Push(int feed, int32_t id) {
    EXPECT_TRUE(feeds_[static_cast<size_t>(feed)]->OnToken(TokenOf(id)));
  }
  // One token each.
  void PushCharacters(int feed, std::string_view text) {
    for (const char c : text) Push(feed, c - ' ');
  }
  void Finish(int feed, FinishReason reason) {
    Completion completion;
    completion.reason = reason;
    completion.num_generated_tokens = 1;
    feeds_[static_cast<size_t>(feed)]->OnFinish(completion);
  }

  Metrics metrics_{"m"};
  Tokenizer tokenizer_;
  Tokenizer characters_ = Characters();
  // Of answers that are made: whether their prompt does; none: they have none.
  std::optional<bool> begins_thought_;
  StreamUsage usage_ = StreamUsage::kNone;
  std::shared_ptr<const std::vector<int32_t>> told_ids_;  // null: none are
  std::vector<int32_t> ids_;
  std::vector<std::shared_ptr<TokenFeed>> feeds_;
  std::vector<Ticket> cancelled_;
};

TEST_F(CompletionAnswerTest, AWholeAnswerWaitsForAllChoices) {
  const auto answer = Make({.num_prompt_tokens = 7}, 2);
  for (const int feed : {0, 1}) {
    feeds_[static_cast<size_t>(feed)]->Accept();
    for (const int32_t id : ids_) Push(feed, id);
    EXPECT_TRUE(answer->Take().empty());
    Finish(feed, FinishReason::kLength);
  }
  const HttpPart part = answer->Take();
  ASSERT_TRUE(part.head && part.last);
  const json whole = json::parse(part.body);
  EXPECT_EQ(whole["choices"][1]["text"], "points to Keleska . the");
  EXPECT_EQ(whole["choices"][1]["index"], 1);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(whole["usage"]["completion_tokens"], 2 * ids_.size());
  EXPECT_EQ(whole["usage"]["prompt_tokens"], 7);
  EXPECT_TRUE(cancelled_.empty());
}

TEST_F(CompletionAnswerTest, ThoughtsAreToldAsTheyComeAndCounted) {
  begins_thought_ = false;
  const auto answer = Make({.stream = true}, 1);
  feeds_[0]->Accept();
  PushCharacters(0, "<think>ab</thi");
  const std::string begin = answer->Take().body;
  // An event each, though they came together.
  for (const char* thought : {R"("reasoning":"a")", R"("reasoning":"b")"}) {
    EXPECT_NE(begin.find(thought), std::string::npos) << begin;
  }
  PushCharacters(0, "nk>cd");
  Finish(0, FinishReason::kStop);
  const std::string end = answer->Take().body;
  for (const char* said :
       {R"("delta":{"content":"c"})", R"("delta":{"content":"d"})"}) {
    EXPECT_NE(end.find(said), std::string::npos) << end;
  }
  EXPECT_EQ((begin + end).find_first_of("<>"), std::string::npos);
}

// Whose client is far behind is told in one event.
TEST_F(CompletionAnswerTest, ManyTokensThatCameTogetherAreOneEvent) {
  for (const int num_tokens : {64, 65}) {
    begins_thought_ = false;
    const auto answer = Make({.stream = true}, 1);
    const int feed = static_cast<int>(feeds_.size()) - 1;
    feeds_.back()->Accept();
    PushCharacters(feed, std::string(static_cast<size_t>(num_tokens), 'a'));
    const std::string body = answer->Take().body;
    size_t num_events = 0;
    for (size_t at = body.find("content\":\"a"); at != std::string::npos;
         at = body.find("content\":\"a", at + 1)) {
      ++num_events;
    }
    EXPECT_EQ(num_events, num_tokens == 64 ? 64u : 1u) << body;
  }
}

TEST_F(CompletionAnswerTest, IdsOfTheirTokensAreToldOnce) {
  told_ids_ = std::make_shared<const std::vector<int32_t>>(ids_);
  const auto answer = Make({.stream = true}, 1);
  feeds_[0]->Accept();
  Push(0, ids_[0]);
  const std::string begin = answer->Take().body;
  Push(0, ids_[1]);
  Finish(0, FinishReason::kStop);
  const std::string end = answer->Take().body;
  const auto ids_in = [](std::string_view name, const json& ids) {
    return fmt::format("\"{}\":{}", name, ids.dump());
  };
  EXPECT_NE(begin.find(ids_in("prompt_token_ids", ids_)), std::string::npos)
      << begin;
  EXPECT_NE(begin.find(ids_in("token_ids", json::array({ids_[0]}))),
            std::string::npos);
  EXPECT_NE(end.find(ids_in("token_ids", json::array({ids_[1]}))),
            std::string::npos)
      << end;
  EXPECT_EQ(end.find("prompt_token_ids"), std::string::npos);
}

TEST_F(CompletionAnswerTest, ThoughtsMayBeKeptBack) {
  begins_thought_ = true;
  const auto answer = Make({.shows_thoughts = false}, 1, {"d"});
  feeds_[0]->Accept();
  PushCharacters(0, "ab</think>cd");
  Finish(0, FinishReason::kStop);
  const json whole = json::parse(answer->Take().body);
  const json message = whole["choices"][0]["message"];
  EXPECT_EQ(message["content"], "c");
  EXPECT_FALSE(message.contains("reasoning"));
  // Its end tag is the thought's.
  EXPECT_EQ(whole["usage"]["completion_tokens_details"]["reasoning_tokens"],
            10);
}

// A prompt's offsets ascend and stay within its text, whatever its tokens spell
// beside it.
TEST_F(CompletionAnswerTest, AnEchosOffsetsStayWithinItsText) {
  const int32_t begin = tokenizer_.Encode("", true).value().front();
  ASSERT_TRUE(tokenizer_.IsSpecial(begin));
  const std::vector<int32_t> prompt = {begin, ids_[0], ids_[1], ids_[1]};
  const auto answer =
      Make({.with_logprobs = true, .marker_ids = {begin}}, 1, {}, {},
           EchoedPrompt{.text = "points to", .token_ids = prompt});
  feeds_[0]->Accept();
  GeneratedToken token = TokenOf(ids_[3]);
  token.prompt =
      std::make_shared<const std::vector<GeneratedToken>>(3, TokenOf(ids_[1]));
  ASSERT_TRUE(feeds_[0]->OnToken(token));
  Finish(0, FinishReason::kStop);
  const json whole = json::parse(answer->Take().body);
  const auto offsets = whole["choices"][0]["logprobs"]["text_offset"]
                           .get<std::vector<int64_t>>();
  ASSERT_EQ(offsets.size(), 5u);
  EXPECT_TRUE(std::ranges::is_sorted(offsets)) << whole;
  EXPECT_EQ(offsets[1], 0);
  EXPECT_EQ(offsets[4], 9);
}

TEST_F(CompletionAnswerTest, AnEchoBeginsWithThePrompt) {
  const std::string text =
      " " + tokenizer_.Decode(std::span(ids_).first(3), false).value();
  for (const bool generates : {true, false}) {
    AnswerForm form = {.with_logprobs = true, .shows_generated = generates};
    const std::vector<int32_t> prompt = {ids_[0], ids_[1], ids_[2]};
    const size_t first_feed = feeds_.size();
    const auto answer = Make(std::move(form), 1, {}, {},
                             EchoedPrompt{.text = text, .token_ids = prompt});
    feeds_[first_feed]->Accept();
    GeneratedToken token = TokenOf(ids_[3]);
    token.prompt = std::make_shared<const std::vector<GeneratedToken>>(
        std::vector<GeneratedToken>{
            {.token_id = prompt[1], .logprob = -1, .top = {{ids_[4], -0.5f}}},
            {.token_id = prompt[2], .logprob = -2, .top = {{prompt[2], -2}}}});
    ASSERT_TRUE(feeds_[first_feed]->OnToken(token));
    Finish(static_cast<int>(first_feed), FinishReason::kStop);
    const json whole = json::parse(answer->Take().body);
    const json choice = whole["choices"][0];
    const std::span ids(ids_);
    const std::string more =
        tokenizer_.Decode(ids.first(4), false)
            .value()
            .substr(tokenizer_.Decode(ids.first(3), false).value().size());
    const json& logprobs = choice["logprobs"];
    // A space that no token has is the prompt's all the same.
    EXPECT_EQ(choice["text"], text + (generates ? more : ""));
    EXPECT_EQ(choice["finish_reason"], generates ? "stop" : "length");
    EXPECT_EQ(whole["usage"]["completion_tokens"], generates ? 1 : 0);
    EXPECT_EQ(logprobs["tokens"].size(), generates ? 4u : 3u);
    EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
    EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
    EXPECT_EQ(logprobs["token_logprobs"][2], -2);
    EXPECT_EQ(logprobs["top_logprobs"][1].size(), 2u);
    EXPECT_EQ(logprobs["top_logprobs"][2].size(), 1u);
    const std::string before =
        tokenizer_.Decode(std::span(prompt).first(2), true).value();
    EXPECT_EQ(logprobs["text_offset"][0], 0);
    EXPECT_EQ(logprobs["text_offset"][2], 1 + before.size());
    if (generates) {
      EXPECT_EQ(logprobs["text_offset"][3], text.size());
    }
  }
}

// Words of this tokenizer have spaces between them, which no token spells.
TEST_F(CompletionAnswerTest, AnOffsetIsWhereATokenBeginsInTheText) {
  for (const bool stream : {false, true}) {
    const auto answer = Make({.stream = stream, .with_logprobs = true}, 1);
    TokenFeed& feed = *feeds_.back();
    feed.Accept();
    std::vector<int64_t> offsets;
    std::string text;
    const auto take = [&] {
      std::string body = answer->Take().body;
      if (stream && body.empty()) return;
      if (stream) body = body.substr(6, body.find("\n\n") - 6);
      const json choice = json::parse(body)["choices"][0];
      text += choice["text"];
      for (const json& at : choice["logprobs"]["text_offset"]) {
        offsets.push_back(at);
      }
    };
    for (const int32_t id : ids_) {
      ASSERT_TRUE(feed.OnToken(TokenOf(id)));
      if (stream) take();
    }
    feed.OnFinish({});
    take();
    std::vector<int64_t> expected;
    for (size_t i = 0; i < ids_.size(); ++i) {
      expected.push_back(std::ssize(
          tokenizer_.Decode(std::span(ids_).first(i), true).value()));
    }
    EXPECT_EQ(offsets, expected);
    EXPECT_EQ(text, "points to Keleska . the");
  }
}

TEST_F(CompletionAnswerTest, ItsRecordSaysHowItBeganAndFailed) {
  const auto record = std::make_shared<RequestRecord>();
  auto answer = Make({.stream = true, .record = record}, 2);
  for (const auto& feed : feeds_) feed->Accept();
  for (int i = 1; i >= 0; --i) {
    GeneratedToken token = TokenOf(ids_[0]);
    token.start = {
        .num_cached_tokens = i, .queue_ms = 1.0 + i, .first_token_ms = 2.0 + i};
    ASSERT_TRUE(feeds_[static_cast<size_t>(i)]->OnToken(token));
  }
  EXPECT_TRUE(answer->Take().head.has_value());
  // Of its first choice, as if the client left now.
  EXPECT_EQ(record->num_cached_tokens, 0);
  EXPECT_EQ(record->queue_ms, 1);
  EXPECT_EQ(record->first_token_ms, 2);
  EXPECT_EQ(record->error_status, 0);
  Completion completion;
  completion.reason = FinishReason::kError;
  completion.error = MakeError(ErrorCode::kIo, "no device");
  feeds_[1]->OnFinish(completion);
  EXPECT_TRUE(answer->Take().last);
  answer.reset();
  EXPECT_EQ(record->error_status, 500);
  EXPECT_EQ(record->finish_reason, "error");
}

// What a style begins with is known with the first token, the head before.
TEST_F(CompletionAnswerTest, WhatWasCachedIsWaitedForWhereItIsTold) {
  begins_thought_ = false;
  usage_ = StreamUsage::kInEach;
  const auto answer = Make({.stream = true}, 1);
  feeds_[0]->Accept();
  const HttpPart head = answer->Take();
  EXPECT_TRUE(head.head.has_value());
  EXPECT_TRUE(head.body.empty());
  EXPECT_TRUE(answer->Take().empty());
  GeneratedToken token = TokenOf('a' - ' ');
  token.start = {.num_cached_tokens = 3};
  ASSERT_TRUE(feeds_[0]->OnToken(token));
  const std::string body = answer->Take().body;
  EXPECT_TRUE(body.starts_with("data: ")) << body;
  const std::string cached = R"("cached_tokens":3)";
  const size_t role = body.find(cached);
  EXPECT_LT(role, body.find(R"("content":"a")")) << body;
  EXPECT_NE(body.find(cached, role + 1), std::string::npos) << body;
}

TEST_F(CompletionAnswerTest, TimeThatIsOverIsAnErrorOfItsOwn) {
  for (const bool stream : {false, true}) {
    const size_t feed = feeds_.size();
    const auto answer = Make({.stream = stream}, 1);
    feeds_[feed]->Accept();
    EXPECT_EQ(answer->Take().head.has_value(), stream);
    Completion completion;
    completion.reason = FinishReason::kError;
    completion.error = MakeError(ErrorCode::kCancelled, "late");
    feeds_[feed]->OnFinish(completion);
    const HttpPart part = answer->Take();
    EXPECT_TRUE(part.last);
    EXPECT_NE(part.body.find("\"timeout_error\""), std::string::npos);
    EXPECT_NE(part.body.find("\"late\""), std::string::npos);
    if (stream) continue;
    EXPECT_EQ(part.head->status, 504);
    EXPECT_EQ(part.head->headers, (HttpHeaders{{"x-should-retry", "false"}}));
  }
}

// A step that goes on is not waited for, nor one that ended in time cut short.
TEST_F(CompletionAnswerTest, ADeadlineIsKeptWithinAStep) {
  using Clock = std::chrono::steady_clock;
  const auto in = [](std::chrono::milliseconds time) {
    return Deadline{.at = Clock::now() + time, .limit = "timeout (2 s)"};
  };
  constexpr std::chrono::milliseconds kLate =
      -kMaxLateness - std::chrono::milliseconds(1);
  EXPECT_FALSE(Make({}, 1)->due());
  const Deadline later = in(std::chrono::hours(1));
  const auto waits = Make({.deadline = later}, 1);
  EXPECT_EQ(waits->due(), later.at + kMaxLateness);
  EXPECT_TRUE(waits->Take().empty());
  const auto first = feeds_.size();
  const auto late = Make({.deadline = in(kLate)}, 1);
  feeds_[first]->Accept();
  const HttpPart part = late->Take();
  EXPECT_EQ(part.head->status, 504);
  EXPECT_EQ(json::parse(part.body)["error"]["message"],
            "timeout (2 s) must suffice for the whole answer, is over within a "
            "step");
  const auto ended = Make({.deadline = in(kLate)}, 1);
  Finish(static_cast<int>(first) + 1, FinishReason::kStop);
  EXPECT_EQ(ended->Take().head->status, 200);
  // Of two both have stopped, or one.
  for (const int num_stopped : {2, 1}) {
    const auto second = static_cast<int>(feeds_.size());
    const auto stopped = Make({.deadline = in(kLate)}, 2, {"the"});
    for (int i = 0; i < num_stopped; ++i) {
      for (const int32_t id : ids_) Push(second + i, id);
    }
    const HttpPart whole = stopped->Take();
    EXPECT_EQ(whole.head->status, num_stopped == 2 ? 200 : 504);
    if (num_stopped < 2) continue;
    const json choice = json::parse(whole.body)["choices"][1];
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_EQ(choice["text"], "points to Keleska . ");
  }
}

std::shared_ptr<const TokenReads> ReadsOf(int position, size_t num_ranges) {
  TokenReads reads = {.position = position, .layers = {{{0, position, 8}}, {}}};
  for (size_t i = 0; i < num_ranges; ++i) {
    reads.layers[1].push_back(
        {static_cast<int>(4 * i), static_cast<int>(4 * i) + 2, 3});
  }
  return std::make_shared<const TokenReads>(std::move(reads));
}

TEST_F(CompletionAnswerTest, AWatchedStreamTellsEachTokensReads) {
  const auto answer = Make({.stream = true}, 1);
  feeds_[0]->Accept();
  EXPECT_TRUE(answer->Take().head.has_value());
  std::string text;
  for (size_t i = 0; i < ids_.size(); ++i) {
    GeneratedToken token = TokenOf(ids_[i]);
    token.reads = ReadsOf(90 + static_cast<int>(i), i);
    ASSERT_TRUE(feeds_[0]->OnToken(token));
    const std::string body = answer->Take().body;
    ASSERT_TRUE(body.starts_with("data: ")) << body;
    const json choice = json::parse(body.substr(6))["choices"][0];
    const json picks = choice["winnow"]["picks"];
    ASSERT_EQ(picks.size(), 1u);
    EXPECT_EQ(picks[0]["position"], 90 + i);
    EXPECT_EQ(picks[0]["layers"][0],
              json::parse(fmt::format("[[0,{},8]]", 90 + i)));
    EXPECT_EQ(picks[0]["layers"][1].size(), i);
    if (i > 1) {
      EXPECT_EQ(picks[0]["layers"][1][1], json({4, 6, 3}));
    }
    EXPECT_EQ(picks[0]["truncated"], false);
    text += picks[0]["text"];
    EXPECT_EQ(picks[0]["text"], choice["text"]);
  }
  EXPECT_EQ(text, "points to Keleska . the");
}

TEST_F(CompletionAnswerTest, WhatLiesUnreadOfReadsIsBounded) {
  TokenFeed feed(metrics_);
  GeneratedToken token = TokenOf(5);
  token.reads = ReadsOf(1 << 20, TokenFeed::kMaxPendingRanges / 8);
  int num_taken = 0;
  while (feed.OnToken(token)) ASSERT_LT(++num_taken, 100);
  EXPECT_EQ(num_taken, 8);
  // Piece by piece, and its end behind all of them.
  for (int i = 0; i < 7; ++i) {
    const FeedEvents events = feed.Take();
    EXPECT_EQ(events.tokens.size(), 1u);
    EXPECT_FALSE(events.overflowed);
  }
  const FeedEvents last = feed.Take();
  EXPECT_EQ(last.tokens.size(), 1u);
  EXPECT_TRUE(last.overflowed);
  EXPECT_TRUE(feed.OnToken(token));
}

TEST_F(CompletionAnswerTest, AWatcherMayNotLagFarBehind) {
  TokenFeed feed(metrics_);
  GeneratedToken token = TokenOf(5);
  token.reads = ReadsOf(1 << 20, 1);
  for (size_t i = 0; i < TokenFeed::kMaxPendingWatchedTokens; ++i) {
    ASSERT_TRUE(feed.OnToken(token));
  }
  EXPECT_FALSE(feed.OnToken(token));
}

TEST_F(CompletionAnswerTest, ManyReadsAreToldInSeveralParts) {
  const auto answer = Make({.stream = true}, 1);
  feeds_[0]->Accept();
  for (const int32_t id : ids_) {
    GeneratedToken token = TokenOf(id);
    token.reads = ReadsOf(1 << 20, TokenFeed::kMaxTakenRanges / 2);
    ASSERT_TRUE(feeds_[0]->OnToken(token));
  }
  Finish(0, FinishReason::kLength);
  size_t num_parts = 0, num_told = 0;
  HttpPart part;
  while (!part.last) {
    part = answer->Take();
    ASSERT_FALSE(part.empty());
    ++num_parts;
    for (size_t at = part.body.find("\"position\""); at != std::string::npos;
         at = part.body.find("\"position\"", at + 1)) {
      ++num_told;
    }
  }
  EXPECT_EQ(num_told, ids_.size());
  EXPECT_EQ(num_parts, (ids_.size() + 1) / 2);
}

TEST_F(CompletionAnswerTest, AStopStringEndsTheRequestOnce) {
  const auto answer = Make({.stream = true}, 1, {" Kele"});
  feeds_[0]->Accept();
  std::string sent;
  for (const int32_t id : ids_) {
    Push(0, id);
    sent += answer->Take().body;
  }
  EXPECT_EQ(cancelled_, std::vector<Ticket>{Ticket{1}});
  Finish(0, FinishReason::kCancelled);
  const HttpPart last = answer->Take();
  EXPECT_TRUE(last.last);
  sent += last.body;
  EXPECT_EQ(sent.find("the"), std::string::npos);
  EXPECT_NE(sent.find(R"("finish_reason":"stop")"), std::string::npos);
  EXPECT_TRUE(sent.ends_with("data: [DONE]\n\n"));
  EXPECT_NE(metrics_.Text().find("finished_reason=\"stop\"} 1\n"),
            std::string::npos);
}

constexpr std::string_view kTwoCalls =
    "Now <tool_call>{\"name\":\"get\",\"arguments\":{\"b\":1,\"a\":2}}"
    "</tool_call><tool_call>{\"name\":\"put\"}</tool_call>";

TEST_F(CompletionAnswerTest, CallsAreToldWholeAndInPlace) {
  const auto ids = characters_.Encode(kTwoCalls, false).value();
  const auto whole = Make({}, 1, {}, {"get"});
  const auto stream = Make({.stream = true}, 1, {}, {"get"});
  std::string sent;
  for (const int feed : {0, 1}) {
    feeds_[static_cast<size_t>(feed)]->Accept();
    for (const int32_t id : ids) {
      Push(feed, id);
      if (feed == 1) sent += stream->Take().body;
    }
    Finish(feed, FinishReason::kStop);
  }
  const json choice = json::parse(whole->Take().body)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "Now");
  const json& calls = choice["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["function"]["name"], "get");
  EXPECT_EQ(calls[0]["function"]["arguments"], R"({"b":1,"a":2})");
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);

  sent += stream->Take().body;
  json streamed = json::array();
  for (size_t at = sent.find("data: {"); at != std::string::npos;
       at = sent.find("data: {", at + 1)) {
    const json event =
        json::parse(sent.substr(at + 6, sent.find('\n', at) - at - 6));
    const json& delta = event["choices"][0]["delta"];
    if (!delta.contains("tool_calls")) continue;
    for (const json& call : delta["tool_calls"]) streamed.push_back(call);
  }
  ASSERT_EQ(streamed.size(), 2u) << sent;
  for (const size_t i : {0u, 1u}) {
    EXPECT_EQ(streamed[i]["index"], i);
    EXPECT_EQ(streamed[i]["function"], calls[i]["function"]);
  }
  EXPECT_NE(sent.find(R"("finish_reason":"tool_calls")"), std::string::npos);
}

TEST_F(CompletionAnswerTest, OneCallMayBeTheEnd) {
  const auto answer = Make({.one_call = true}, 1, {}, {"get"});
  feeds_[0]->Accept();
  const auto ids = characters_.Encode(kTwoCalls, false).value();
  for (const int32_t id : ids) {
    Push(0, id);
    EXPECT_TRUE(answer->Take().empty());
  }
  EXPECT_EQ(cancelled_, std::vector<Ticket>{Ticket{1}});
  Finish(0, FinishReason::kCancelled);
  const json choice = json::parse(answer->Take().body)["choices"][0];
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
}

// Special or not, where it is no marker.
TEST_F(CompletionAnswerTest, WhatEndsAnAnswerIsNoneOfItsText) {
  for (const bool marks : {false, true}) {
    AnswerForm form = {.with_logprobs = true};
    if (marks) form.marker_ids = {ids_[1]};
    form.end_ids = {ids_[1]};
    const auto answer = Make(std::move(form), 1);
    TokenFeed& feed = *feeds_.back();
    feed.Accept();
    for (const size_t i : {0u, 1u}) feed.OnToken(TokenOf(ids_[i]));
    feed.OnFinish({});
    const json choice = json::parse(answer->Take().body)["choices"][0];
    EXPECT_EQ(choice["text"], marks ? "points to" : "points");
    EXPECT_EQ(choice["logprobs"]["tokens"],
              json({"points", marks ? " to" : ""}));
  }
}

TEST_F(CompletionAnswerTest, OfSpecialTokensOnlyMarkersAreShown) {
  const int32_t special = *tokenizer_.bos_id();
  for (const bool marks : {false, true}) {
    AnswerForm form;
    form.marker_ids = {marks ? special : ids_[0]};
    const auto answer = Make(std::move(form), 1);
    TokenFeed& feed = *feeds_.back();
    feed.Accept();
    for (const int32_t id : {special, ids_[0]}) feed.OnToken(TokenOf(id));
    feed.OnFinish({});
    const std::vector<int32_t> shown =
        marks ? std::vector{special, ids_[0]} : std::vector{ids_[0]};
    EXPECT_EQ(json::parse(answer->Take().body)["choices"][0]["text"],
              tokenizer_.Decode(shown, !marks).value());
  }
}

TEST_F(CompletionAnswerTest, AnErrorIsAStatusOrAnEvent) {
  const auto refused = Make({.stream = true, .prompt_field = "input"}, 1);
  EXPECT_TRUE(refused->Take().empty());
  feeds_[0]->Refuse({ErrorCode::kInvalidArgument, "too long"});
  const HttpPart said = refused->Take();
  EXPECT_EQ(said.head->status, 400);
  const json told = json::parse(said.body)["error"];
  EXPECT_EQ(told["message"], "request: field input: too long");
  EXPECT_EQ(told["param"], "input");

  const auto begun = Make({.stream = true}, 1);
  feeds_[1]->Accept();
  EXPECT_EQ(begun->Take().head->status, 200);
  Completion failed;
  failed.reason = FinishReason::kError;
  failed.error = Error{ErrorCode::kCorrupt, "no token is left"};
  feeds_[1]->OnFinish(failed);
  const HttpPart part = begun->Take();
  EXPECT_FALSE(part.head);
  EXPECT_TRUE(part.last);
  EXPECT_TRUE(part.body.starts_with("data: {\"error\""));
}

TEST_F(CompletionAnswerTest, WhoLeavesCancelsWhatStillRuns) {
  auto answer = Make({}, 2);
  int num_wakes = 0;
  answer->SetWake([&num_wakes] { ++num_wakes; });
  feeds_[0]->Accept();
  feeds_[0]->OnToken(TokenOf(ids_[0]));
  EXPECT_EQ(num_wakes, 1);  // Once until it is looked at.
  Finish(1, FinishReason::kStop);
  EXPECT_TRUE(answer->Take().empty());
  answer.reset();
  EXPECT_EQ(cancelled_, std::vector<Ticket>{Ticket{1}});
  feeds_[0]->OnToken(TokenOf(ids_[0]));
  EXPECT_EQ(num_wakes, 2);
}

TEST_F(CompletionAnswerTest, AFeedHoldsNoMoreThanItsBound) {
  TokenFeed feed(metrics_);
  for (size_t i = 0; i < TokenFeed::kMaxPendingTokens; ++i) {
    ASSERT_TRUE(feed.OnToken(TokenOf(5)));
  }
  EXPECT_FALSE(feed.OnToken(TokenOf(5)));
  const FeedEvents events = feed.Take();
  EXPECT_TRUE(events.overflowed);
  EXPECT_EQ(events.tokens.size(), TokenFeed::kMaxPendingTokens);
}

}  // namespace
}  // namespace winnow
