#include "serve/answer/request_log.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/check.h"
#include "serve/answer/json_text.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// How long an end waits for a reader that does not read.
constexpr int kWaitMs = 100;

// "2026-11-22T04:05:06.789Z".
std::string TimeText(std::chrono::system_clock::time_point when) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                      when.time_since_epoch())
                      .count();
  const std::time_t seconds = ms / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
                     parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec, ms % 1000);
}

std::string_view NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
  }
  CHECK(false, "level={}", static_cast<int>(level));
}

double Rounded(double ms) {
  return static_cast<double>(int64_t(ms * 1e3)) / 1e3;
}

Json JsonOf(const RequestRecord& record, double total_ms) {
  Json line = {{"time", TimeText(record.arrived_at)},
               {"level", NameOf(LevelOf(record))},
               {"event", "request"},
               {"request_id", record.id},
               {"method", record.method},
               {"path", record.path},
               {"status", record.status},
               {"stream", record.streamed},
               {"whole", record.whole}};
  if (record.error_status > 0) {
    line["error_code"] = record.error_code.empty() ? Json(record.error_status)
                                                   : Json(record.error_code);
  }
  if (!record.field.empty()) line["field"] = record.field;
  if (!record.answer.empty()) {
    line["answer_id"] = record.answer;
    line["finish_reason"] = record.finish_reason;
    line["prompt_tokens"] = record.num_prompt_tokens;
    line["cached_tokens"] = record.num_cached_tokens;
    line["generated_tokens"] = record.num_generated_tokens;
  }
  if (record.encode_ms >= 0) line["encode_ms"] = Rounded(record.encode_ms);
  if (record.queue_ms >= 0) line["queue_ms"] = Rounded(record.queue_ms);
  if (record.first_token_ms >= 0) {
    line["first_token_ms"] = Rounded(record.first_token_ms);
  }
  line["total_ms"] = Rounded(total_ms);
  return line;
}

std::string TextOf(const RequestRecord& record, double total_ms) {
  std::string line =
      fmt::format("winnow: {} {} {} {} {} ms", TimeText(record.arrived_at),
                  record.method, record.path, record.status, Rounded(total_ms));
  if (!record.answer.empty()) {
    line += fmt::format(" {}+{} tokens {}", record.num_prompt_tokens,
                        record.num_generated_tokens, record.finish_reason);
  }
  if (record.error_status > 0) {
    line += fmt::format(" {}", record.error_code.empty()
                                   ? std::to_string(record.error_status)
                                   : record.error_code);
  }
  if (!record.whole) line += " cut";
  return line + " " + record.id;
}

std::string LeftOut(uint64_t num_lines, LogFormat format) {
  if (format == LogFormat::kText) {
    return fmt::format("winnow: {} lines left out", num_lines);
  }
  return DumpJson({{"level", "warning"},
                   {"event", "lines_left_out"},
                   {"count", num_lines}});
}

}  // namespace

LogLevel LevelOf(const RequestRecord& record) {
  const int status = std::max(record.status, record.error_status);
  if (status >= 500) return LogLevel::kError;
  const bool fine = status > 0 && status < 400 && record.whole;
  return fine ? LogLevel::kInfo : LogLevel::kWarning;
}

std::string LogLine(const RequestRecord& record, LogFormat format,
                    std::chrono::steady_clock::time_point now) {
  const double total_ms =
      std::chrono::duration<double, std::milli>(now - record.arrived).count();
  return format == LogFormat::kJson ? DumpJson(JsonOf(record, total_ms))
                                    : TextOf(record, total_ms);
}

std::string LogLine(const ServerEvent& event, LogFormat format,
                    std::chrono::system_clock::time_point now) {
  if (format == LogFormat::kText) {
    return fmt::format("winnow: {} {}: {}", TimeText(now), event.name,
                       event.message);
  }
  return DumpJson({{"time", TimeText(now)},
                   {"level", NameOf(LogLevel::kWarning)},
                   {"event", event.name},
                   {"message", event.message}});
}

RequestLog::RequestLog(int descriptor, LogFormat format, LogLevel least)
    : descriptor_(descriptor),
      format_(format),
      least_(least),
      thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "winnow-log");
}

RequestLog::~RequestLog() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  came_.notify_one();
  thread_.join();
}

void RequestLog::Add(const RequestRecord& record) {
  if (LevelOf(record) > least_) return;
  AddLine([&] {
    return LogLine(record, format_, std::chrono::steady_clock::now());
  });
}

void RequestLog::Add(const ServerEvent& event) {
  if (LogLevel::kWarning > least_) return;
  AddLine([&] {
    return LogLine(event, format_, std::chrono::system_clock::now());
  });
}

// Ends of answers leave lines, and may not throw.
void RequestLog::AddLine(const std::function<std::string()>& make) {
  try {
    std::string line = make() + "\n";
    const std::scoped_lock lock(mutex_);
    if (lines_.size() >= kMaxPendingLines) {
      ++num_left_out_;
      return;
    }
    lines_.push_back(std::move(line));
  } catch (const std::bad_alloc&) {
    const std::scoped_lock lock(mutex_);
    ++num_left_out_;
    return;
  }
  came_.notify_one();
}

// A pipe takes so much at once where it takes anything: no write waits.
bool RequestLog::Write(std::string_view text) {
  while (!text.empty()) {
    pollfd ready = {.fd = descriptor_, .events = POLLOUT, .revents = 0};
    const int num_ready = poll(&ready, 1, kWaitMs);
    if (num_ready < 0 && errno != EINTR) return false;
    if (num_ready <= 0) {
      const std::scoped_lock lock(mutex_);
      if (ending_) return false;
      continue;
    }
    const size_t most = std::min<size_t>(text.size(), PIPE_BUF);
    const ssize_t written = write(descriptor_, text.data(), most);
    if (written < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

void RequestLog::Run() {
  while (true) {
    std::string text;
    {
      std::unique_lock lock(mutex_);
      came_.wait(lock, [this] { return !lines_.empty() || ending_; });
      if (lines_.empty()) return;
      text = std::move(lines_.front());
      lines_.pop_front();
      if (num_left_out_ > 0 && lines_.empty()) {
        text += LeftOut(std::exchange(num_left_out_, 0), format_) + "\n";
      }
    }
    if (!Write(text)) return;
  }
}

}  // namespace winnow
