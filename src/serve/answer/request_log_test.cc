#include "serve/answer/request_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using nlohmann::json;

RequestRecord Answered() {
  RequestRecord record;
  record.id = "r1";
  record.method = "POST";
  record.path = "/v1/completions";
  record.status = 200;
  record.whole = true;
  record.answer = "cmpl-1";
  record.finish_reason = "stop";
  record.num_prompt_tokens = 5;
  record.num_generated_tokens = 3;
  record.encode_ms = 0.25;
  record.queue_ms = 1.5;
  return record;
}

TEST(RequestLogTest, ALineHasWhatHappened) {
  RequestRecord record = Answered();
  record.arrived_at = std::chrono::system_clock::time_point(
      std::chrono::milliseconds(1'000'000'000'123));
  const auto end = record.arrived + std::chrono::microseconds(20'500);
  const std::string line = LogLine(record, LogFormat::kJson, end);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const json shown = json::parse(line);
  EXPECT_EQ(shown["time"], "2001-09-09T01:46:40.123Z");
  EXPECT_EQ(shown["request_id"], "r1");
  EXPECT_EQ(shown["status"], 200);
  EXPECT_EQ(shown["prompt_tokens"], 5);
  EXPECT_EQ(shown["total_ms"], 20.5);
  EXPECT_EQ(shown["encode_ms"], 0.25);
  EXPECT_EQ(shown["queue_ms"], 1.5);
  EXPECT_FALSE(shown.contains("first_token_ms"));
  EXPECT_FALSE(shown.contains("field"));
  EXPECT_EQ(LogLine(record, LogFormat::kText, end),
            "winnow: 2001-09-09T01:46:40.123Z POST /v1/completions 200 20.5 ms "
            "5+3 tokens stop r1");
}

TEST(RequestLogTest, LevelsSayWhoseFaultItWas) {
  RequestRecord record = Answered();
  EXPECT_EQ(LevelOf(record), LogLevel::kInfo);
  record.whole = false;
  EXPECT_EQ(LevelOf(record), LogLevel::kWarning);
  record.whole = true;
  record.status = 429;
  EXPECT_EQ(LevelOf(record), LogLevel::kWarning);
  record.status = 500;
  EXPECT_EQ(LevelOf(record), LogLevel::kError);
  record.status = 200;
  record.error_status = 504;
  EXPECT_EQ(LevelOf(record), LogLevel::kError);
  record.error_status = 400;
  EXPECT_EQ(LevelOf(record), LogLevel::kWarning);
}

TEST(RequestLogTest, AStreamThatFailedSaysOfWhat) {
  RequestRecord record = Answered();
  const auto shown = [&record](LogFormat format) {
    return LogLine(record, format, record.arrived);
  };
  EXPECT_FALSE(json::parse(shown(LogFormat::kJson)).contains("error_code"));
  record.finish_reason = "error";
  record.error_status = 503;
  EXPECT_EQ(json::parse(shown(LogFormat::kJson))["error_code"], 503);
  EXPECT_TRUE(shown(LogFormat::kText).ends_with(" tokens error 503 r1"));
  record.error_status = 504;
  record.error_code = "timeout";
  const json line = json::parse(shown(LogFormat::kJson));
  EXPECT_EQ(line["error_code"], "timeout");
  EXPECT_EQ(line["status"], 200);
  EXPECT_EQ(line["level"], "error");
}

// The ends of a pipe that holds as little as it may.
class RequestLogPipeTest : public testing::Test {
 protected:
  RequestLogPipeTest() {
    EXPECT_EQ(pipe(ends_), 0);
    EXPECT_GT(fcntl(ends_[1], F_SETPIPE_SZ, 4096), 0);
  }
  ~RequestLogPipeTest() override {
    for (const int end : ends_) close(end);
  }
  std::string ReadAll() {
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string text;
    char piece[4096];
    for (ssize_t size = 0; (size = read(ends_[0], piece, sizeof(piece))) > 0;) {
      text.append(piece, static_cast<size_t>(size));
    }
    return text;
  }

  int ends_[2] = {};
};

TEST_F(RequestLogPipeTest, WritesWhatIsOfItsLevel) {
  {
    RequestLog log(ends_[1], LogFormat::kJson, LogLevel::kWarning);
    RequestRecord record = Answered();
    log.Add(record);
    record.status = 404;
    log.Add(record);
  }
  const std::string text = ReadAll();
  ASSERT_TRUE(text.ends_with("}\n")) << text;
  EXPECT_EQ(json::parse(text)["status"], 404);
}

TEST_F(RequestLogPipeTest, TellsWhatBefellTheServer) {
  const ServerEvent event = {.name = "kv_disk", .message = "full: \"x\""};
  for (const LogLevel least :
       {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo}) {
    RequestLog(ends_[1], LogFormat::kJson, least).Add(event);
    const std::string text = ReadAll();
    EXPECT_EQ(text.empty(), least == LogLevel::kError);
    if (text.empty()) continue;
    const json line = json::parse(text);
    EXPECT_EQ(line["level"], "warning");
    EXPECT_EQ(line["event"], "kv_disk");
    EXPECT_EQ(line["message"], "full: \"x\"");
  }
  EXPECT_EQ(LogLine(event, LogFormat::kText, {}),
            "winnow: 1970-01-01T00:00:00.000Z kv_disk: full: \"x\"");
}

// Whoever answers must not wait for whoever reads the log; what there was no
// room for is counted.
TEST_F(RequestLogPipeTest, NobodyWaitsForItsReader) {
  constexpr size_t kNumAdded = 2 * RequestLog::kMaxPendingLines;
  RequestLog log(ends_[1], LogFormat::kJson, LogLevel::kInfo);
  for (size_t i = 0; i < kNumAdded; ++i) log.Add(Answered());
  std::string text;
  while (text.find("lines_left_out") == std::string::npos ||
         !text.ends_with('\n')) {
    char piece[4096];
    const ssize_t size = read(ends_[0], piece, sizeof(piece));
    ASSERT_GT(size, 0);
    text.append(piece, static_cast<size_t>(size));
  }
  const auto num_lines = static_cast<size_t>(std::ranges::count(text, '\n'));
  const size_t begin = text.rfind('\n', text.size() - 2) + 1;
  const json last = json::parse(text.substr(begin));
  EXPECT_EQ(num_lines - 1 + last["count"].get<size_t>(), kNumAdded);
  EXPECT_LT(num_lines, kNumAdded);
}

TEST_F(RequestLogPipeTest, ItsEndWaitsForNobodyEither) {
  RequestLog log(ends_[1], LogFormat::kJson, LogLevel::kInfo);
  for (int i = 0; i < 100; ++i) log.Add(Answered());
}

}  // namespace
}  // namespace winnow
