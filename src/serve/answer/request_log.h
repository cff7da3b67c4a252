// RequestLog: a line for each request, on standard error.
#ifndef WINNOW_SERVE_ANSWER_REQUEST_LOG_H_
#define WINNOW_SERVE_ANSWER_REQUEST_LOG_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace winnow {

// The outcome of one request: plain data that the answering code fills in.
// Contains no text of prompt or answer.
struct RequestRecord {
  std::string id;
  std::string method;
  std::string path;
  std::string handler = {};  // the route's path; empty: no route
  std::chrono::system_clock::time_point arrived_at =
      std::chrono::system_clock::now();
  std::chrono::steady_clock::time_point arrived =
      std::chrono::steady_clock::now();
  int status = 0;  // 0: no answer began
  bool streamed = false;
  bool whole = false;  // the last piece of the answer was sent
  // The status of a failure after the answer began, perhaps behind a head with
  // status 200; 0: no failure.
  int error_status = 0;
  std::string error_code = {};  // empty: by that status
  std::string field = {};       // the refused field, if any
  std::string answer = {};      // the answer's id; empty: no completion
  // The origin whose pages may read the answer; empty: none. Not logged.
  std::string allowed_origin = {};
  std::string finish_reason = {};
  int64_t num_prompt_tokens = 0;
  int64_t num_cached_tokens = 0;
  int64_t num_generated_tokens = 0;
  // Time of template and tokenizer; negative: not reached.
  double encode_ms = -1;
  // Of the first choice, from its acceptance by the engine; negative: not
  // reached.
  double queue_ms = -1;
  double first_token_ms = -1;
};

// An event of the server that belongs to no request.
struct ServerEvent {
  std::string_view name;  // one word
  std::string message;    // a line for people
};

enum class LogFormat : uint8_t { kJson, kText };
enum class LogLevel : uint8_t { kError, kWarning, kInfo };

// kError if the server failed, kWarning if the client was refused or
// disconnected, else kInfo.
LogLevel LevelOf(const RequestRecord& record);
// One line, without its end. `now`: the request's end.
std::string LogLine(const RequestRecord& record, LogFormat format,
                    std::chrono::steady_clock::time_point now);
// A line for an event, always a warning. `now`: the event's time.
std::string LogLine(const ServerEvent& event, LogFormat format,
                    std::chrono::system_clock::time_point now);

// Any thread may add, without waiting. A thread of its own writes the lines.
// Lines beyond kMaxPendingLines are counted and dropped.
class RequestLog {
 public:
  static constexpr size_t kMaxPendingLines = 4096;

  // `descriptor`: the destination, which stays the caller's.
  RequestLog(int descriptor, LogFormat format, LogLevel least);
  // Writes pending lines, as far as the descriptor accepts them without a wait.
  ~RequestLog();

  void Add(const RequestRecord& record);
  void Add(const ServerEvent& event);

 private:
  void AddLine(const std::function<std::string()>& make);
  void Run();
  // False if the descriptor accepts nothing more.
  bool Write(std::string_view text);

  const int descriptor_;
  const LogFormat format_;
  const LogLevel least_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable came_;
  std::deque<std::string> lines_;
  uint64_t num_left_out_ = 0;
  bool ending_ = false;
  std::thread thread_;  // last
};

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_REQUEST_LOG_H_
