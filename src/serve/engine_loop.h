// EngineLoop: the thread that steps the engine, and the door to it.
#ifndef WINNOW_SERVE_ENGINE_LOOP_H_
#define WINNOW_SERVE_ENGINE_LOOP_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "serve/token_feed.h"

namespace winnow {

// Names a request that was submitted, for its sender. 0 is none.
enum class Ticket : uint64_t {};

struct Submission {
  Request request;
  std::shared_ptr<TokenFeed> feed;
};

// Owns the engine and the thread that alone uses it: it takes in what came,
// runs a step, hands on what came of it, and sleeps where there is nothing to
// do. Any thread submits and cancels; neither waits for a step. At all times at
// most max_open requests are submitted and not ended, and as many of them are
// watched as the engine allows.
class EngineLoop {
 public:
  // `on_failure` is called on the loop's thread where the device fails; the
  // loop takes no more requests then. REQUIRES: metrics outlives this.
  EngineLoop(std::unique_ptr<Engine> engine, int max_open, Metrics& metrics,
             std::function<void(const Error&)> on_failure);
  // Cancels what still runs.
  ~EngineLoop();

  // All of them or none. Fails with kResourceExhausted where too many are
  // open, with kIo where the device has failed.
  Result<std::vector<Ticket>> Submit(std::vector<Submission> submissions);
  // Nothing where it has ended.
  void Cancel(Ticket ticket);
  // False where no step can run any more.
  bool healthy() const;

 private:
  struct Open {
    SequenceId id;
    std::shared_ptr<TokenFeed> feed;
    bool is_watched = false;
  };
  struct Arrival {
    Ticket ticket;
    Submission submission;
  };
  struct Inbox {
    std::vector<Arrival> arrivals = {};
    std::vector<Ticket> cancelled = {};
    bool ending = false;
  };

  // Whether there is room for them. REQUIRES: mutex_ is held.
  Status CheckRoom(const std::vector<Submission>& submissions) const;
  // Requests have ended.
  void CountEnded(int num, int num_watched);
  void Run();
  Inbox AwaitWork();
  void TakeIn(Inbox inbox);
  void Step();
  // Forgets those that have ended, and tells how it stands.
  void Sweep();

  const std::unique_ptr<Engine> engine_;
  const int max_open_;
  const int max_watched_;
  Metrics& metrics_;
  const std::function<void(const Error&)> on_failure_;
  std::map<Ticket, Open> open_;  // of the thread

  mutable std::mutex mutex_;  // for what follows
  std::condition_variable came_;
  Inbox inbox_;
  int num_open_ = 0;
  int num_watched_ = 0;  // of those
  uint64_t num_tickets_ = 0;
  std::optional<Error> failure_;

  std::thread thread_;  // last
};

}  // namespace winnow

#endif  // WINNOW_SERVE_ENGINE_LOOP_H_
