// Sequences of random lengths and selectors that join and leave an engine on a
// GPU: nothing grows, nothing is recorded again, nothing is waited for but in
// Backend::Wait, and who asks what was asked before gets the same answer.
//
// WINNOW_JOIN_LEAVE_SECONDS: how long (480: the eight minutes of a release).
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <list>
#include <map>
#include <random>
#include <set>

#include "backend/cuda/cuda_backend.h"
#include "backend/forwarding.h"
#include "engine/engine.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSeqs = WINNOW_JOIN_LEAVE_SEQS;  // running at once
constexpr int kMaxLength = 192;
constexpr int kMaxPrompt = 10 * kSeqs;
constexpr int kMaxTokens = 12 * kSeqs;
constexpr int kProbePrompt = 40;
constexpr int kProbeTokens = kSeqs + 1;
const std::vector<std::string> kSelectors = {
    "mean:budget=32,block=16,dense_layers=none",
    "quest:budget=32,block=16,dense_layers=none",
    "window:sink=4,recent=32",
    "seerattention-r:budget=32,block=16",
    "seerattention-r:threshold=0.1,block=8",
    "snapkv:budget=24,window=8,kernel=3",
    "retroinfer:budget=8,estimate=16,segment=32,cluster=4,recent=8"};

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of this thread: what it computed, and how often it gave up the processor to
// wait for something.
struct ThreadUse {
  double seconds = 0;
  int64_t num_waits = 0;

  static ThreadUse Now() {
    rusage use = {};
    getrusage(RUSAGE_THREAD, &use);
    timespec cpu = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    return {static_cast<double>(cpu.tv_sec) +
                1e-9 * static_cast<double>(cpu.tv_nsec),
            use.ru_nvcsw};
  }
  ThreadUse operator-(const ThreadUse& other) const {
    return {seconds - other.seconds, num_waits - other.num_waits};
  }
  void operator+=(const ThreadUse& other) {
    seconds += other.seconds;
    num_waits += other.num_waits;
  }
};

// Counts what an engine should do at its start alone, and times its waits.
class CountingBackend final : public ForwardingBackend {
 public:
  explicit CountingBackend(std::unique_ptr<Backend> real)
      : ForwardingBackend(std::move(real)) {}

  int64_t num_allocations = 0;
  int64_t num_recorded = 0;        // steps
  int64_t num_recorded_again = 0;  // of these, that had been before
  int64_t num_replays = 0;
  double waited_seconds = 0;
  ThreadUse in_waits;

  Result<Buffer> Allocate(Tier tier, size_t num_bytes,
                          std::string_view purpose) override {
    ++num_allocations;
    return real().Allocate(tier, num_bytes, purpose);
  }
  Status Wait(Event event, std::chrono::milliseconds timeout) override {
    const Clock::time_point start = Clock::now();
    const ThreadUse before = ThreadUse::Now();
    const Status status = real().Wait(event, timeout);
    in_waits += ThreadUse::Now() - before;
    waited_seconds += SecondsSince(start);
    return status;
  }
  void Replay(Queue& queue, std::span<const std::byte> key,
              const std::function<void()>& enqueue) override {
    ++num_replays;
    real().Replay(queue, key, [&] {
      ++num_recorded;
      const bool is_new =
          keys_
              .insert(std::string(reinterpret_cast<const char*>(key.data()),
                                  key.size()))
              .second;
      if (!is_new) ++num_recorded_again;
      enqueue();
    });
  }

 private:
  std::set<std::string> keys_;
};

int64_t FreeDeviceBytes() {
  size_t free_bytes = 0, total_bytes = 0;
  EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  return static_cast<int64_t>(free_bytes);
}

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// One request, until it has ended or is to be cancelled.
struct Client : RequestObserver {
  SequenceId id{0};
  int probe = -1;  // which question it is; -1: one of its own
  int leaves_after = 0;
  std::vector<int32_t> tokens;
  std::optional<Completion> end;

  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken& token) override {
    tokens.push_back(token.token_id);
    return true;
  }
  void OnFinish(const Completion& completion) override { end = completion; }
};

class JoinLeaveTest : public testing::Test {
 protected:
  JoinLeaveTest() : tiny_(ReadTinyCase("llama")), folder_("join_leave") {
    // Else a kernel takes memory when it is first launched.
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    WriteTinyModel(tiny_, folder_.path(), {.dtype = Dtype::kBFloat16});
    model_.emplace(Model::Load(folder_.path(), {}).value());
    WriteTinyGates(model_->config(), folder_.path());
    Result<std::unique_ptr<Backend>> cuda = StartCudaBackend({});
    CHECK(cuda.ok(), "{}", cuda.error().message);
    backend_.emplace(std::move(cuda).value());
    CHECK(model_->Upload(*backend_, {}).ok(), "weights");
    EngineOptions options;
    options.max_num_seqs = kSeqs;
    options.max_model_len = kMaxLength;
    options.max_num_batched_tokens = 64;
    options.device_kv_bytes = 4 << 20;
    options.batch_invariant = true;
    options.selectors = kSelectors;
    Result<std::unique_ptr<Engine>> engine =
        Engine::Create(*backend_, *model_, options);
    CHECK(engine.ok(), "{}", engine.error().message);
    engine_ = std::move(engine).value();
  }

  int Between(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }

  // `probe`: one of as many questions as there are selectors, and dense.
  void Join(int probe, int num_prompt, int num_tokens, int min_tokens = 0) {
    Client& client = clients_.emplace_back();
    client.probe = probe;
    Request request;
    const int first = probe >= 0 ? probe : Between(0, 1 << 20);
    for (int i = 0; i < num_prompt; ++i) {
      request.prompt.push_back(TinyToken(tiny_, first, i));
    }
    request.max_tokens = num_tokens;
    request.min_tokens = min_tokens;
    const auto num_selectors = static_cast<int>(kSelectors.size());
    request.selector = probe >= 0 ? probe - 1 : Between(0, num_selectors) - 1;
    if (probe < 0) {
      request.sampling.temperature = Between(0, 1) == 0 ? 0.0f : 0.8f;
      if (Between(0, 4) == 0) client.leaves_after = Between(1, num_tokens);
    }
    request.cache_prefix = Between(0, 1) == 0;
    Result<SequenceId> id = engine_->Add(std::move(request), &client);
    ASSERT_TRUE(id.ok()) << id.error().message;
    client.id = *id;
    ++num_joined_;
  }
  void JoinAsProbe(int probe) { Join(probe, kProbePrompt, kProbeTokens); }
  void JoinAny() {
    if (Between(0, 9) == 0) return JoinAsProbe(Between(0, num_probes() - 1));
    const int num_prompt = Between(1, kMaxPrompt);
    const int most = std::min(kMaxLength - num_prompt, kMaxTokens);
    Join(-1, num_prompt, Between(1, most));
  }
  static int num_probes() { return static_cast<int>(kSelectors.size()) + 1; }

  // A step; those that want to leave do, and those that have ended are gone.
  void Step() {
    const Result<bool> more = engine_->Step();
    ASSERT_TRUE(more.ok()) << more.error().message;
    ++num_steps_;
    for (Client& client : clients_) {
      const auto count = static_cast<int>(client.tokens.size());
      if (!client.end && client.leaves_after > 0 &&
          count >= client.leaves_after) {
        engine_->Cancel(client.id);
        ++num_left_;
      }
    }
    std::erase_if(clients_, [this](const Client& client) {
      if (!client.end) return false;
      EXPECT_NE(client.end->reason, FinishReason::kError);
      if (client.probe >= 0) {
        const auto [known, is_first] =
            answers_.try_emplace(client.probe, client.tokens);
        EXPECT_EQ(client.tokens, known->second) << "probe " << client.probe;
        if (!is_first) ++num_compared_;
      }
      return true;
    });
  }
  void StepToEnd() {
    while (!clients_.empty() && !HasFailure()) Step();
  }

  // Every number of sequences decodes, and every selector; of few sequences
  // also steps that complete no summary, and some that do.
  void WarmUp() {
    for (int probe = 0; probe < num_probes(); ++probe) {
      JoinAsProbe(probe);
      StepToEnd();
    }
    for (int num_seqs = 1; num_seqs <= kSeqs; ++num_seqs) {
      for (int i = 0; i < num_seqs; ++i) {
        Join(-1, 1 + i, 8, /*min_tokens=*/8);
        clients_.back().leaves_after = 0;
      }
      StepToEnd();
      for (int i = 0; i < num_seqs; ++i) {
        Join(/*probe=*/1, 8, 20, /*min_tokens=*/20);
        clients_.back().probe = -1;
      }
      StepToEnd();
    }
  }

  const TinyCase tiny_;
  const TemporaryFolder folder_;
  std::optional<Model> model_;
  std::optional<CountingBackend> backend_;
  std::unique_ptr<Engine> engine_;
  std::mt19937 random_{1};
  std::list<Client> clients_;
  std::map<int, std::vector<int32_t>> answers_;
  int64_t num_steps_ = 0, num_joined_ = 0, num_left_ = 0, num_compared_ = 0;
};

// What was seen of memory, once a fiftieth of the time.
struct Seen {
  std::vector<int64_t> device, host;

  void Look() {
    device.push_back(FreeDeviceBytes());
    host.push_back(ResidentBytes());
  }
  static int64_t Most(std::span<const int64_t> of) {
    return std::ranges::max(of);
  }
};

TEST_F(JoinLeaveTest, NothingGrowsAndNothingIsRecordedAgain) {
  const char* asked = std::getenv("WINNOW_JOIN_LEAVE_SECONDS");
  const double seconds = asked == nullptr ? 2.0 : std::atof(asked);
  WarmUp();
  ASSERT_FALSE(HasFailure());
  const int64_t allocations = backend_->num_allocations;
  const int64_t recorded = backend_->num_recorded;
  const int64_t steps = num_steps_, replays = backend_->num_replays;
  const double waited = backend_->waited_seconds;
  const ThreadUse in_waits = backend_->in_waits;
  const ThreadUse before = ThreadUse::Now();
  const Clock::time_point start = Clock::now();
  double stepping = 0;
  Seen seen;
  const auto step = [&] {
    const Clock::time_point begun = Clock::now();
    Step();
    stepping += SecondsSince(begun);
  };
  for (const int probe : {0, 4, 1}) JoinAsProbe(probe);
  while (SecondsSince(start) < seconds && !HasFailure()) {
    if (SecondsSince(start) * 50 >=
        seconds * static_cast<double>(seen.host.size())) {
      seen.Look();
    }
    while (std::ssize(clients_) < Between(1, 2 * kSeqs)) JoinAny();
    step();
  }
  while (!clients_.empty() && !HasFailure()) step();
  const ThreadUse in_waits_since = backend_->in_waits - in_waits;
  const ThreadUse elsewhere = ThreadUse::Now() - before - in_waits_since;
  const double waited_since = backend_->waited_seconds - waited;
  seen.Look();

  const std::span<const int64_t> host(seen.host);
  const int64_t early = Seen::Most(host.first((host.size() + 1) / 2));
  const int64_t late = Seen::Most(host.last((host.size() + 3) / 4));
  const auto [least, most] = std::ranges::minmax(seen.device);
  const double unaccounted = stepping - waited_since - elsewhere.seconds;
  fmt::print(
      "{:.1f} s: {} steps ({} replayed), {} sequences joined and {} left, {} "
      "answers compared; {} graphs, {} since the warm-up; device memory free "
      "{} to {} bytes; host {} bytes, at first {}; {:.2f} s of {:.2f} in "
      "Wait, {:.2f} computing, {:.2f} neither; {} waits elsewhere\n",
      seconds, num_steps_ - steps, backend_->num_replays - replays, num_joined_,
      num_left_, num_compared_, backend_->num_recorded,
      backend_->num_recorded - recorded, least, most, late, early, waited_since,
      stepping, elsewhere.seconds, unaccounted, elsewhere.num_waits);
  EXPECT_EQ(least, most);
  EXPECT_LE(late, early + early / 100 + (int64_t{2} << 20));
  EXPECT_EQ(backend_->num_allocations, allocations);
  EXPECT_EQ(backend_->num_recorded, recorded);
  EXPECT_EQ(backend_->num_recorded_again, 0);
  EXPECT_GE(num_compared_, 3);
  // A page fault may wait; a step does not.
  EXPECT_LE(elsewhere.num_waits, (num_steps_ - steps) / 100 + 10);
  EXPECT_EQ(engine_->kv().num_free_pages(), engine_->kv().num_pages());
}

}  // namespace
}  // namespace winnow
