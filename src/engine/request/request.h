// What a front asks of the engine, and what it is told.
#ifndef WINNOW_ENGINE_REQUEST_REQUEST_H_
#define WINNOW_ENGINE_REQUEST_REQUEST_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/request/sampling_params.h"
#include "engine/request/token_constraint.h"
#include "engine/selection/read_ranges.h"

namespace winnow {

// Tokens with which several requests begin, read once for all of them.
struct Prefix {
  std::vector<int32_t> tokens;  // at least one
  // What the longest request on it may reach, prompt and generated. The rotary
  // embedding of all of them goes by it, as their keys are the prefix's.
  int max_length = 0;
  int selector = -1;  // as Request::selector
};

inline constexpr size_t kMaxCacheSaltBytes = 256;

// When a request is late, and by what limit: "timeout (1.5 s)".
struct Deadline {
  std::chrono::steady_clock::time_point at;
  std::string limit = "the deadline";
};

struct Request {
  std::vector<int32_t> prompt;  // token ids, at least one
  // The last tokens of the prompt that are fed as decode rows, so that a
  // selector answers them: a task's question. At most prompt.size().
  int num_question_tokens = 0;
  int max_tokens = 0;  // to generate, at least 1
  // Nobody asked for so many: where the pools have no room for them, it gets as
  // many as they have room for.
  bool may_get_fewer = false;
  int priority = 0;  // lower starts first: TurnOrder
  // When it ends with an error (kCancelled) if it has not ended before, also
  // where it still waits. It leaves its pages as one that was cancelled does.
  std::optional<Deadline> deadline = {};
  std::vector<int32_t> end_token_ids;  // any of them ends the text
  // Before that many have been generated no end token is drawn. At most
  // max_tokens.
  int min_tokens = 0;
  std::vector<int32_t> allowed_token_ids = {};  // to be drawn; none: all
  SamplingParams sampling;
  // The prefix with which the prompt begins and whose KV it shares; at least
  // one token of the prompt comes after it. None: a request of its own.
  std::optional<SequenceId> prefix = {};
  // Teacher forcing: after draw i, which is reported as drawn, the text goes on
  // with forced_tokens[i]. At most max_tokens.
  std::vector<int32_t> forced_tokens = {};
  // What every token is held to; null: nothing. It belongs to this request
  // alone, which has no forced tokens then.
  std::shared_ptr<TokenConstraint> constraint = {};
  // What the rotary embedding goes by where that is more than it may reach
  // itself: of requests that are to begin with each other's pages, the longest
  // one's length.
  int planned_tokens = 0;
  // Which of EngineOptions::selectors says what is read; -1: everything is.
  int selector = -1;
  // Whether it may begin with pages that an earlier request left behind, and
  // leaves its own behind. Those of another salt are never shared, so that
  // nobody learns from his waiting what others asked.
  bool cache_prefix = true;
  std::string cache_salt = {};  // at most kMaxCacheSaltBytes
  // Each token comes with what the row that drew it read.
  bool is_watched = false;
  // How probable the model holds each token of the prompt to be but the first,
  // with so many alternatives: GeneratedToken::prompt. All rows of the prompt
  // are computed for it, whatever is cached. None: it is not asked.
  std::optional<int> prompt_logprobs = {};
};

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kError };

// "stop", "length", "cancelled", "error": as --json spells it.
std::string_view FinishReasonName(FinishReason reason);

struct TokenLogprob {
  int32_t token_id = 0;
  float logprob = 0;
};

// What is known of a request when its first token is there, as its Completion
// will have it.
struct RequestStart {
  int num_cached_tokens = 0;
  double queue_ms = 0;
  double first_token_ms = 0;
};

// One generated token. `top` is empty unless logprobs were asked for.
struct GeneratedToken {
  int32_t token_id = 0;
  float logprob = 0;
  std::vector<TokenLogprob> top;
  std::shared_ptr<const TokenReads> reads = {};  // null unless watched
  // Of a request's first token: those of the prompt, from its second on. Null
  // unless asked for.
  std::shared_ptr<const std::vector<GeneratedToken>> prompt = {};
  std::optional<RequestStart> start = {};  // of a request's first token
};

// When things happened, in milliseconds; first_token_ms from arrival.
struct RequestTiming {
  double queue_ms = 0;
  double prefill_ms = 0;
  double first_token_ms = 0;
  double decode_ms = 0;
};

// What Fetch counted for a request while its pages were not all whole: pieces
// of pages, as many as a slot holds, over layers and KV heads.
struct FetchedPieces {
  int64_t picks = 0;
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t hints = 0;
  int64_t hints_used = 0;
  // Of misses and hints, those of pages that lay on the device yet.
  int64_t reclaimable = 0;
  // That Fetch fetched over the link, or Read found on the host.
  int64_t fetched_bytes = 0;
  // Of layer blocks of layers that are read whole, copied before the step.
  int64_t near_bytes = 0;

  FetchedPieces& operator+=(const FetchedPieces& other) {
    picks += other.picks;
    hits += other.hits;
    misses += other.misses;
    hints += other.hints;
    hints_used += other.hints_used;
    reclaimable += other.reclaimable;
    fetched_bytes += other.fetched_bytes;
    near_bytes += other.near_bytes;
    return *this;
  }
};

// What the request's KV cost, as `--json` reports it.
struct KvCounters {
  // Of its pages, what lay on the device and what on the host when it ended: a
  // page may lie on both.
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;
  int64_t picks = 0;  // these five as FetchedPieces has them
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t hints = 0;
  int64_t hints_used = 0;
  int64_t fetched_bytes = 0;  // for it, to the device
  // Of pages that it held, what was copied to the host to stay there, and what
  // the disk had written by the time that it ended.
  int64_t written_bytes = 0;
  // That its rows waited for KV: until a disk had brought its pages, by the
  // clock, and for fetched_bytes over the link, by RestoreRates.
  double stall_ms = 0;
  // Decode rows that ran, and the share of its context that such a row
  // read, mean over rows and layers; 0 where none ran.
  int64_t num_decode_rows = 0;
  double tokens_read_share = 0;
  // What such rows read in all, mean over layers.
  int64_t num_tokens_read = 0;
};

struct Completion {
  FinishReason reason = FinishReason::kStop;
  std::optional<Error> error;  // where reason is kError
  int num_prompt_tokens = 0;
  int num_cached_tokens = 0;  // of the prompt: not computed, found in the pool
  int num_generated_tokens = 0;
  int num_preemptions = 0;  // times that it was preempted and came back
  RequestTiming timing;
  KvCounters kv;
};

// Hears of one request, on the engine's thread. Must not call the engine.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  // `done` of `total` prompt tokens have been computed, more than before. While
  // a prompt is read layer by layer, its rows in one layer count for their
  // share of all layers, rounded down.
  virtual void OnPrefill(int done, int total) = 0;
  // Returns false to end the request here, as a stop string does.
  virtual bool OnToken(const GeneratedToken& token) = 0;
  // The last call for this request.
  virtual void OnFinish(const Completion& completion) = 0;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_REQUEST_REQUEST_H_
