// EngineLoop: the thread that steps the engine, and the only access to it.
#ifndef WINNOW_SERVE_LOOP_ENGINE_LOOP_H_
#define WINNOW_SERVE_LOOP_ENGINE_LOOP_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "serve/loop/disk_failures.h"
#include "serve/loop/token_feed.h"

namespace winnow {

// A submitted request, for its sender. 0 is none.
enum class Ticket : uint64_t {};

struct Submission {
  Request request;
  std::shared_ptr<TokenFeed> feed;
};

// Callbacks on the loop's thread.
struct LoopListeners {
  // The device has failed; the loop takes no more requests.
  std::function<void(const Error&)> on_failure;
  // A disk failure, as a line for people; the loop goes on.
  std::function<void(const std::string&)> on_disk_failure = {};
  // A request was ended because nothing could run; a line for people.
  std::function<void(const std::string&)> on_given_up = {};
};

// Limits of running and waiting requests.
struct LoopLimits {
  int max_open = 0;
  // Tokens of all their prompts; one larger prompt is allowed alone. A token
  // takes twice four bytes, so half a GiB. The limit lets thousands wait, but
  // not each with a prompt as long as the context.
  int64_t max_open_tokens = int64_t{64} << 20;
};

// Owns the engine and the only thread that uses it. The thread takes in
// requests, runs a step and passes on its results. It sleeps if nothing is left
// to do, or until a client or the disk has something. Hence disk writes happen
// while no request runs, and a request waits for the disk only for its own
// prompt's pages. Any thread may submit and cancel, without waiting for a step.
// Open requests never exceed LoopLimits, and watched ones never exceed the
// engine's limit.
class EngineLoop {
 public:
  // REQUIRES: metrics outlives this; the engine's disk has a thread of its own.
  EngineLoop(std::unique_ptr<Engine> engine, const LoopLimits& limits,
             Metrics& metrics, LoopListeners listeners);
  // Cancels running requests. Pages that are not yet in flight to the disk are
  // not written.
  ~EngineLoop();

  // Submits all or none. Fails with kResourceExhausted if too many are open,
  // with kIo if the device has failed.
  Result<std::vector<Ticket>> Submit(std::vector<Submission> submissions);
  // Does nothing if the request has ended.
  void Cancel(Ticket ticket);
  // False if no further step can run.
  bool healthy() const;
  // Waits until nothing is left to do and the disk has all pages to keep. False
  // after `longest`.
  bool AwaitRest(std::chrono::duration<double> longest);

 private:
  struct Open {
    SequenceId id;
    std::shared_ptr<TokenFeed> feed;
    size_t num_tokens = 0;  // of its prompt
    bool is_watched = false;
    std::optional<Deadline> deadline = {};
    // The loop has reported a failure for it; the engine keeps it until it
    // ends.
    bool is_told = false;
  };
  struct Arrival {
    Ticket ticket;
    Submission submission;
  };
  struct Inbox {
    std::vector<Arrival> arrivals = {};
    std::vector<Ticket> cancelled = {};
    bool disk_moved = false;  // the disk has results for the engine
    bool ending = false;

    bool empty() const {
      return arrivals.empty() && cancelled.empty() && !disk_moved && !ending;
    }
  };

  // Totals over some requests.
  struct Share {
    int64_t num = 0;
    int64_t num_watched = 0;
    int64_t num_tokens = 0;  // of their prompts

    Share& operator+=(const Share& other);
  };
  static Share ShareOf(const std::vector<Submission>& submissions);
  // Fails if `more` exceeds the limits. REQUIRES: mutex_ is held.
  Status CheckRoom(const Share& more) const;
  // Subtracts ended requests.
  void CountEnded(const Share& ended);
  void Run();
  Inbox AwaitWork();
  // The earliest deadline of all open requests, if any has one.
  std::optional<std::chrono::steady_clock::time_point> FirstDeadline() const;
  void TakeIn(Inbox inbox);
  void Step();
  // Reports that no further step can run.
  void TellFailure(const Error& error);
  void TellSilence();
  // `is_last`: reports all failures that are left.
  void TellDiskFailures(bool is_last);
  // Forgets requests that the engine has ended, and sets the gauges.
  void Sweep();

  const std::unique_ptr<Engine> engine_;
  const LoopLimits limits_;
  const int max_watched_;
  Metrics& metrics_;
  const LoopListeners listeners_;
  // Used by the thread.
  std::map<Ticket, Open> open_;
  Engine::Progress progress_ = Engine::Progress::kNothingLeft;
  DiskFailures disk_failures_;
  bool told_disk_end_ = false;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable came_, rested_;
  Inbox inbox_;
  bool rests_ = false;  // the thread sleeps and nothing is left to do
  Share share_;         // submitted and not ended
  uint64_t num_tickets_ = 0;
  std::optional<Error> failure_;

  std::thread thread_;  // last
};

}  // namespace winnow

#endif  // WINNOW_SERVE_LOOP_ENGINE_LOOP_H_
