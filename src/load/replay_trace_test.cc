#include "load/replay_trace.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(ReplayTraceTest, InTheOrderOfTheirTimes) {
  const auto trace = ReadTrace(
      "{\"timestamp\": 3000, \"input_length\": 700, \"output_length\": 5, "
      "\"hash_ids\": [1, 9]}\n"
      "\n"
      "{\"timestamp\": 500.5, \"input_length\": 1, \"output_length\": 2, "
      "\"other\": []}\r\n"
      "{\"timestamp\": 3000, \"input_length\": 8, \"output_length\": 6}",
      "t");
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  ASSERT_EQ(trace->size(), 3u);
  EXPECT_EQ(trace->at(0).due_ms, 0);
  EXPECT_EQ(trace->at(0).output_tokens, 2);
  EXPECT_TRUE(trace->at(0).hash_ids.empty());
  EXPECT_EQ(trace->at(1).due_ms, 2499.5);
  EXPECT_EQ(trace->at(1).prompt_tokens, 700);
  EXPECT_EQ(trace->at(1).hash_ids, (std::vector<int64_t>{1, 9}));
  EXPECT_EQ(trace->at(2).output_tokens, 6);
}

TEST(ReplayTraceTest, SaysWhatIsWrongAndWhere) {
  const std::string good =
      "{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n";
  const auto expect = [&](const std::string& line, const std::string& message) {
    const auto trace = ReadTrace(good + line, "t");
    ASSERT_FALSE(trace.ok()) << line;
    EXPECT_EQ(trace.error().code, ErrorCode::kCorrupt);
    EXPECT_TRUE(trace.error().message.starts_with(message))
        << trace.error().message;
  };
  expect("{", "t:2: must be a JSON object");
  expect("[]", "t:2: must be a JSON object");
  expect("{}",
         "t:2: field timestamp: must be a number of milliseconds from 0, "
         "is missing");
  expect("{\"timestamp\":-1}", "t:2: field timestamp: ");
  expect("{\"timestamp\":1,\"input_length\":0}",
         "t:2: field input_length: must be an integer in [1, 16777216], is 0");
  expect("{\"timestamp\":1,\"input_length\":1}", "t:2: field output_length: ");
  expect(
      "{\"timestamp\":1,\"input_length\":513,\"output_length\":1,"
      "\"hash_ids\":[1]}",
      "t:2: field hash_ids: must be 2 integers, one for each 512 tokens");
  const auto empty = ReadTrace(" \n", "t");
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().message, "t: must have at least 1 line, is empty");
}

}  // namespace
}  // namespace winnow
