#include "load/answer_reader.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

const std::string kChat =
    ": ping\n\n"
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
    "\"finish_reason\":null}],\"usage\":null}\r\n\r\n"
    "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"caf\\u00e9 \"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"\xE2\x82\xAC\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,"
    "\"completion_tokens\":9}}\n\n"
    "data: [DONE]\n\n";

LoadOutcome Read(AnswerStyle style, bool streams,
                 const std::vector<std::string_view>& pieces) {
  LoadOutcome outcome;
  AnswerReader reader(style, streams, &outcome);
  reader.TakeHead(
      200, streams ? "text/event-stream; charset=utf-8" : "application/json");
  double seconds = 0;
  for (const std::string_view piece : pieces) {
    reader.TakeBody(piece, seconds += 1);
  }
  reader.End(seconds);
  return outcome;
}

void ExpectChat(const LoadOutcome& outcome) {
  ASSERT_TRUE(outcome.answered()) << outcome.fault_text;
  EXPECT_EQ(outcome.text, "caf\xC3\xA9 \xE2\x82\xAC");
  EXPECT_EQ(outcome.prompt_tokens, 5);
  EXPECT_EQ(outcome.completion_tokens, 9);
  // Reasoning is tokens too; the empty role is none.
  EXPECT_EQ(outcome.gaps_s.size(), 2u);
}

TEST(AnswerReaderTest, AChatHoweverItIsCut) {
  const std::string_view chat = kChat;
  for (size_t cut = 0; cut <= chat.size(); ++cut) {
    ExpectChat(Read(AnswerStyle::kChat, true,
                    {chat.substr(0, cut), chat.substr(cut)}));
  }
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < chat.size(); ++i) bytes.push_back(chat.substr(i, 1));
  ExpectChat(Read(AnswerStyle::kChat, true, bytes));
}

TEST(AnswerReaderTest, TimesAreThoseOfTheEvents) {
  const auto event = [](const char* text) {
    return std::string("data: {\"choices\":[{\"text\":\"") + text + "\"}]}\n\n";
  };
  const std::string first = event("a"), second = event("b") + event("c"),
                    last = "data: [DONE]\n\n";
  const LoadOutcome outcome = Read(AnswerStyle::kCompletion, true,
                                   {": wait\n\n", first, second, last, "more"});
  ASSERT_TRUE(outcome.answered());
  EXPECT_EQ(outcome.first_token_s, 2);
  EXPECT_EQ(outcome.gaps_s, (std::vector<double>{1, 0}));
  EXPECT_EQ(outcome.latency_s, 4);
  // Nobody told how many: each event is one.
  EXPECT_EQ(outcome.completion_tokens, 3);
  EXPECT_FALSE(outcome.tokens_told);
}

TEST(AnswerReaderTest, AnAnswerOfNothingHasItsFirstTokenAtItsEnd) {
  const LoadOutcome outcome = Read(
      AnswerStyle::kCompletion, true,
      {"data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n",
       "data: [DONE]\n\n"});
  ASSERT_TRUE(outcome.answered());
  EXPECT_EQ(outcome.first_token_s, 1);
  EXPECT_TRUE(outcome.gaps_s.empty());
}

TEST(AnswerReaderTest, AWholeChat) {
  const LoadOutcome outcome =
      Read(AnswerStyle::kChat, false,
           {"{\"choices\":[{\"message\":{\"content\":\"yes\"},",
            "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,"
            "\"completion_tokens\":1}}"});
  ASSERT_TRUE(outcome.answered()) << outcome.fault_text;
  EXPECT_EQ(outcome.text, "yes");
  EXPECT_FALSE(outcome.first_token_s.has_value());
  EXPECT_EQ(outcome.completion_tokens, 1);
}

TEST(AnswerReaderTest, NothingBehindAFaultCounts) {
  const LoadOutcome outcome =
      Read(AnswerStyle::kCompletion, true,
           {"data: {]\n\n", "data: {\"choices\":[{\"text\":\"late\"}]}\n\n"});
  EXPECT_EQ(outcome.fault, Fault::kBadAnswer);
  EXPECT_EQ(outcome.text, "");
  EXPECT_EQ(outcome.latency_s, 1);
}

TEST(AnswerReaderTest, ErrorsHaveManyForms) {
  EXPECT_EQ(ErrorWords("{\"error\":{\"message\":\"a\"}}"), "a");
  EXPECT_EQ(ErrorWords("{\"error\":\"b\"}"), "b");
  EXPECT_EQ(ErrorWords("{\"object\":\"error\",\"message\":\"c\"}"), "c");
  EXPECT_EQ(ErrorWords("{\"detail\":\"Not Found\"}"), "Not Found");
  EXPECT_EQ(ErrorWords("<html>\n"), "<html> ");
  EXPECT_EQ(ErrorWords(std::string(9999, 'x')).size(), 303u);
}

TEST(AnswerReaderTest, TheFirstModelOfAList) {
  EXPECT_EQ(FirstModelName("{\"data\":[{\"id\":\"m\"},{\"id\":\"n\"}]}"), "m");
  for (const char* text : {"", "[]", "{}", "{\"data\":[]}", "{\"data\":[1]}"}) {
    EXPECT_EQ(FirstModelName(text), "") << text;
  }
}

}  // namespace
}  // namespace winnow
