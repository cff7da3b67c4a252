// Requests and outcomes of a load: plain data.
#ifndef WINNOW_LOAD_LOAD_REQUEST_H_
#define WINNOW_LOAD_LOAD_REQUEST_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "load/answer_json.h"
#include "load/server_url.h"

namespace winnow {

// The destination and form of all requests.
struct LoadTarget {
  ServerUrl url = {};
  std::string endpoint = "/v1/completions";  // behind url.path
  AnswerStyle style = AnswerStyle::kCompletion;
  bool streams = true;
  // Beside Host, Content-Type and the connection's headers.
  std::vector<std::pair<std::string, std::string>> headers = {};
  // From a request's first byte, or from its connection's start, to the last
  // byte of its answer.
  std::chrono::milliseconds timeout{3600 * 1000};
};

struct LoadRequest {
  double due_s = 0;  // from the run's start
  std::string body;  // JSON
};

// The reason why a request has no answer.
enum class Fault {
  kNone,
  kRefused,     // nothing listens there
  kNotReached,  // no connection for another reason
  kTimedOut,
  kStatus,        // an HTTP status other than 200
  kBrokenStream,  // the connection, or the stream, ended too early
  kBadAnswer,     // the answer is not in the server's format
  kServerError,   // reported in the stream, after status 200
  kInterrupted    // the run was stopped first
};

// Times in seconds. due_s and sent_s count from the run's start, the others
// from sent_s.
struct LoadOutcome {
  double due_s = 0;
  double sent_s = 0;
  Fault fault = Fault::kNone;
  int status = 0;          // for kStatus
  std::string fault_text;  // one line
  std::string text;        // up to the fault
  // Times to the first event with tokens, between such events, and to the end.
  // Without a stream, only the last is set.
  std::optional<double> first_token_s;
  std::vector<double> gaps_s;
  double latency_s = 0;
  int64_t prompt_tokens = 0;  // 0: not reported
  int64_t cached_tokens = 0;
  // Events with tokens, if the server does not report a count (see
  // tokens_told).
  int64_t completion_tokens = 0;
  bool tokens_told = false;

  bool answered() const { return fault == Fault::kNone; }
};

// "refused", "status 503": the name of one kind of fault.
std::string FaultName(const LoadOutcome& outcome);

}  // namespace winnow

#endif  // WINNOW_LOAD_LOAD_REQUEST_H_
