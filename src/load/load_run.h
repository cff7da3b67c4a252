// An open-loop load: each request is sent when it is due, however slow the
// server is with those before it.
#ifndef WINNOW_LOAD_LOAD_RUN_H_
#define WINNOW_LOAD_LOAD_RUN_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "load/load_request.h"

namespace winnow {

struct LoadRunOptions {
  LoadTarget target = {};
  int max_concurrency = 0;  // requests at once, others wait; 0: any number
};

// Where a run stands.
struct LoadCounts {
  size_t sent = 0;
  size_t answered = 0;
  size_t failed = 0;
};

struct LoadResult {
  // Of the requests that were sent, in the order in which they were due.
  std::vector<LoadOutcome> outcomes;
  double seconds = 0;  // from the first one's due time to the last one's end
  // Of that time, what the one thread of the client was computing: near 1 it
  // is the client that was measured.
  double client_busy_share = 0;
};

// One run, on the thread that calls Run.
class LoadRun {
 public:
  // Looks up the server's name and connects once. Fails where either does not
  // succeed.
  static Result<std::unique_ptr<LoadRun>> Create(const LoadRunOptions& options);
  ~LoadRun();
  LoadRun(const LoadRun&) = delete;
  LoadRun& operator=(const LoadRun&) = delete;

  struct Answer {
    int status = 0;
    std::string body;
  };
  // One exchange, waited for: "GET", or "POST" with a body. Fails where there
  // is no answer.
  Result<Answer> Ask(const std::string& method, const std::string& endpoint,
                     const std::string& body);

  // Sends all, in their order, and returns when each has ended. `tick` is
  // called a few times a second. REQUIRES: due times ascend; called once.
  LoadResult Run(std::vector<LoadRequest> requests,
                 const std::function<void(const LoadCounts&)>& tick);
  // Any thread: what is under way is broken off, what is not sent stays so.
  void Stop();

 private:
  class Client;
  explicit LoadRun(std::unique_ptr<Client> client);
  std::unique_ptr<Client> client_;
};

}  // namespace winnow

#endif  // WINNOW_LOAD_LOAD_RUN_H_
