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

// What became of one request: plain data, put together by who answers it. No
// word of what was asked or answered is in it.
struct RequestRecord {
  std::string id;
  std::string method;
  std::string path;
  std::string handler = {};  // the route's path; empty: none
  std::chrono::system_clock::time_point arrived_at =
      std::chrono::system_clock::now();
  std::chrono::steady_clock::time_point arrived =
      std::chrono::steady_clock::now();
  int status = 0;  // 0: no answer began
  bool streamed = false;
  bool whole = false;  // the last piece of the answer was sent
  // What the client was told where an answer failed, perhaps behind a head
  // that says 200; 0: it did not.
  int error_status = 0;
  std::string error_code = {};  // empty: by that status
  std::string field = {};       // that was refused, if one was
  std::string answer = {};      // its id; empty: no completion
  // Whose pages may read the answer; empty: nobody's. No line has it.
  std::string allowed_origin = {};
  std::string finish_reason = {};
  int64_t num_prompt_tokens = 0;
  int64_t num_cached_tokens = 0;
  int64_t num_generated_tokens = 0;
  // Of template and tokenizer; negative: it did not come to that.
  double encode_ms = -1;
  // Of the first choice, from the engine's taking it in; negative likewise.
  double queue_ms = -1;
  double first_token_ms = -1;
};

// What befell the server, and no request of its own.
struct ServerEvent {
  std::string_view name;  // a word
  std::string message;    // a line, for people
};

enum class LogFormat : uint8_t { kJson, kText };
enum class LogLevel : uint8_t { kError, kWarning, kInfo };

// An error where the server failed, a warning where the client was refused or
// left, else info.
LogLevel LevelOf(const RequestRecord& record);
// One line, without its end. `now`: when it was over.
std::string LogLine(const RequestRecord& record, LogFormat format,
                    std::chrono::steady_clock::time_point now);
// The same of an event, always a warning. `now`: when it was.
std::string LogLine(const ServerEvent& event, LogFormat format,
                    std::chrono::system_clock::time_point now);

// Any thread adds, and never waits: a thread of its own writes, and what it has
// no room for is counted and left out.
class RequestLog {
 public:
  static constexpr size_t kMaxPendingLines = 4096;

  // `descriptor`: where lines go; stays the caller's.
  RequestLog(int descriptor, LogFormat format, LogLevel least);
  // Writes what is there, as far as it is taken without a wait.
  ~RequestLog();

  void Add(const RequestRecord& record);
  void Add(const ServerEvent& event);

 private:
  void AddLine(const std::function<std::string()>& make);
  void Run();
  // False where nobody takes it any more.
  bool Write(std::string_view text);

  const int descriptor_;
  const LogFormat format_;
  const LogLevel least_;
  std::mutex mutex_;  // for what follows
  std::condition_variable came_;
  std::deque<std::string> lines_;
  uint64_t num_left_out_ = 0;
  bool ending_ = false;
  std::thread thread_;  // last
};

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_REQUEST_LOG_H_
