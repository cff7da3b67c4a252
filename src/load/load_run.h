// LoadRun: an open-loop load. Each request is sent at its due time, however
// slow the server is with earlier ones.
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
  // Requests in flight; further ones wait; 0: no limit.
  int max_concurrency = 0;
};

// Progress of a run.
struct LoadCounts {
  size_t sent = 0;
  size_t answered = 0;
  size_t failed = 0;
};

struct LoadResult {
  // Of the sent requests, in the order of their due times.
  std::vector<LoadOutcome> outcomes;
  double seconds = 0;  // from the first due time to the last end
  // The share of that time during which the client's one thread computed. Near
  // 1, the run measured the client.
  double client_busy_share = 0;
};

// One run, on the thread that calls Run.
class LoadRun {
 public:
  // Resolves the server's name and connects once. Fails if either fails.
  static Result<std::unique_ptr<LoadRun>> Create(const LoadRunOptions& options);
  ~LoadRun();
  LoadRun(const LoadRun&) = delete;
  LoadRun& operator=(const LoadRun&) = delete;

  struct Answer {
    int status = 0;
    std::string body;
  };
  // Runs one exchange and waits for it: "GET", or "POST" with a body. Fails if
  // there is no answer.
  Result<Answer> Ask(const std::string& method, const std::string& endpoint,
                     const std::string& body);

  // Sends all requests in order, and returns when each has ended. Calls `tick`
  // a few times a second. REQUIRES: due times ascend; called once.
  LoadResult Run(std::vector<LoadRequest> requests,
                 const std::function<void(const LoadCounts&)>& tick);
  // Aborts the requests in flight and sends no more. Any thread.
  void Stop();

 private:
  class Client;
  explicit LoadRun(std::unique_ptr<Client> client);
  std::unique_ptr<Client> client_;
};

}  // namespace winnow

#endif  // WINNOW_LOAD_LOAD_RUN_H_
