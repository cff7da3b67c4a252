// EngineLoop: the thread that steps the engine, and the door to it.
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

// Names a request that was submitted, for its sender. 0 is none.
enum class Ticket : uint64_t {};

struct Submission {
  Request request;
  std::shared_ptr<TokenFeed> feed;
};

// Who hears of it, on the loop's thread.
struct LoopListeners {
  // The device has failed: the loop takes no more requests.
  std::function<void(const Error&)> on_failure;
  // What the disk failed at, as a line for people; all goes on.
  std::function<void(const std::string&)> on_disk_failure = {};
  // A request was given up because nothing could run, likewise.
  std::function<void(const std::string&)> on_given_up = {};
};

// Of requests that run or wait.
struct LoopLimits {
  int max_open = 0;
  // Of their prompts together, unless one has more alone: twice four bytes of
  // memory each, so half a GiB. Thousands may wait, and not each with a prompt
  // as long as the context.
  int64_t max_open_tokens = int64_t{64} << 20;
};

// Owns the engine and the thread that alone uses it: it takes in what came,
// runs a step, hands on what came of it, and sleeps where there is nothing to
// do, or nothing before a client or the disk has something. So what is to be
// kept is written while nobody asks, and whoever asks never waits for the disk
// but for what it holds of his own prompt. Any thread submits and cancels;
// neither waits for a step. At all times no more than LoopLimits are submitted
// and not ended, and as many of them are watched as the engine allows.
class EngineLoop {
 public:
  // REQUIRES: metrics outlives this; a disk of the engine's has a thread of its
  // own.
  EngineLoop(std::unique_ptr<Engine> engine, const LoopLimits& limits,
             Metrics& metrics, LoopListeners listeners);
  // Cancels what still runs. What is not on its way to the disk yet is not
  // written.
  ~EngineLoop();

  // All of them or none. Fails with kResourceExhausted where too many are
  // open, with kIo where the device has failed.
  Result<std::vector<Ticket>> Submit(std::vector<Submission> submissions);
  // Nothing where it has ended.
  void Cancel(Ticket ticket);
  // False where no step can run any more.
  bool healthy() const;
  // Waits until nothing is left to do, and all that is to be kept is on the
  // disk; false where that takes longer.
  bool AwaitRest(std::chrono::duration<double> longest);

 private:
  struct Open {
    SequenceId id;
    std::shared_ptr<TokenFeed> feed;
    size_t num_tokens = 0;  // of its prompt
    bool is_watched = false;
    std::optional<Deadline> deadline = {};
    // Told of a failure by the loop: the engine has it until it ends itself.
    bool is_told = false;
  };
  struct Arrival {
    Ticket ticket;
    Submission submission;
  };
  struct Inbox {
    std::vector<Arrival> arrivals = {};
    std::vector<Ticket> cancelled = {};
    bool disk_moved = false;  // it has something that the engine may take
    bool ending = false;

    bool empty() const {
      return arrivals.empty() && cancelled.empty() && !disk_moved && !ending;
    }
  };

  // What some of them are together.
  struct Share {
    int64_t num = 0;
    int64_t num_watched = 0;
    int64_t num_tokens = 0;  // of their prompts

    Share& operator+=(const Share& other);
  };
  static Share ShareOf(const std::vector<Submission>& submissions);
  // Whether there is room for them. REQUIRES: mutex_ is held.
  Status CheckRoom(const Share& more) const;
  // Requests have ended.
  void CountEnded(const Share& ended);
  void Run();
  Inbox AwaitWork();
  // The first deadline of all that are open, if any has one.
  std::optional<std::chrono::steady_clock::time_point> FirstDeadline() const;
  void TakeIn(Inbox inbox);
  void Step();
  // No step can run any more.
  void TellFailure(const Error& error);
  void TellSilence();
  // `is_last`: all that is left.
  void TellDiskFailures(bool is_last);
  // Forgets those that the engine has ended, and tells how it stands.
  void Sweep();

  const std::unique_ptr<Engine> engine_;
  const LoopLimits limits_;
  const int max_watched_;
  Metrics& metrics_;
  const LoopListeners listeners_;
  // Of the thread.
  std::map<Ticket, Open> open_;
  Engine::Progress progress_ = Engine::Progress::kNothingLeft;
  DiskFailures disk_failures_;
  bool told_disk_end_ = false;

  mutable std::mutex mutex_;  // for what follows
  std::condition_variable came_, rested_;
  Inbox inbox_;
  bool rests_ = false;  // it sleeps, and nothing is left
  Share share_;         // submitted and not ended
  uint64_t num_tickets_ = 0;
  std::optional<Error> failure_;

  std::thread thread_;  // last
};

}  // namespace winnow

#endif  // WINNOW_SERVE_LOOP_ENGINE_LOOP_H_
