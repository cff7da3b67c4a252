// What a load asks and what becomes of it: plain data.
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

// Where all requests go, and how.
struct LoadTarget {
  ServerUrl url = {};
  std::string endpoint = "/v1/completions";  // behind url.path
  AnswerStyle style = AnswerStyle::kCompletion;
  bool streams = true;
  // Besides Host, Content-Type and those of the connection.
  std::vector<std::pair<std::string, std::string>> headers = {};
  // From a request's first byte, or its connection's, to its answer's last.
  std::chrono::milliseconds timeout{3600 * 1000};
};

struct LoadRequest {
  double due_s = 0;  // from the run's start
  std::string body;  // JSON
};

// Why a request has no answer.
enum class Fault {
  kNone,
  kRefused,     // nothing listens there
  kNotReached,  // another reason why there is no connection
  kTimedOut,
  kStatus,        // of HTTP, other than 200
  kBrokenStream,  // the connection, or the stream, ended too early
  kBadAnswer,     // it is not what such a server answers
  kServerError,   // told in the stream, after status 200
  kInterrupted    // the run was stopped first
};

// Seconds; those from the run's start are of sending, the others from there.
struct LoadOutcome {
  double due_s = 0;
  double sent_s = 0;
  Fault fault = Fault::kNone;
  int status = 0;          // of kStatus
  std::string fault_text;  // one line
  std::string text;        // as far as it came
  // To the first event with tokens, between each and the next, and to the end.
  // Only the last is there where the answer does not stream.
  std::optional<double> first_token_s;
  std::vector<double> gaps_s;
  double latency_s = 0;
  int64_t prompt_tokens = 0;  // 0: not told
  int64_t cached_tokens = 0;
  // Events with tokens, where the server does not count (see tokens_told).
  int64_t completion_tokens = 0;
  bool tokens_told = false;

  bool answered() const { return fault == Fault::kNone; }
};

// "refused", "status 503": what counts as one kind of fault.
std::string FaultName(const LoadOutcome& outcome);

}  // namespace winnow

#endif  // WINNOW_LOAD_LOAD_REQUEST_H_
