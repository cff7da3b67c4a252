// One request's mutable state.
#ifndef WINNOW_ENGINE_REQUEST_SEQUENCE_H_
#define WINNOW_ENGINE_REQUEST_SEQUENCE_H_

#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/request/request.h"
#include "engine/schedule/scheduler.h"
#include "kv/prefix_index.h"

namespace winnow {

// Frequencies of the rotary embedding, fixed for a request's life by the
// length it may reach: keys are cached after rotation.
struct RequestRope {
  std::vector<float> inverse_frequencies;  // [rotary_dim / 2]
  float scale = 1.0f;
};

// Owned and changed by the engine alone. At all times
//   0 <= num_computed <= tokens.size(), and
//   chunk_tokens > 0 exactly while a chunk is between two layer ranges.
// One that is layerwise has no such chunks while its prompt is read: all of it
// but what is cached goes through next_layer before the next one, and nothing
// counts as computed before the last.
// A prefix is a sequence that generates nothing: its request's max_tokens is
// what its longest fork adds to it. A fork begins with its prefix computed.
class Sequence {
 public:
  using Clock = std::chrono::steady_clock;

  // REQUIRES: observer outlives the sequence.
  Sequence(SequenceId id, Request request, RequestRope rope,
           RequestObserver* observer);
  static std::unique_ptr<Sequence> MakePrefix(SequenceId id, Prefix prefix,
                                              RequestRope rope,
                                              RequestObserver* observer);
  // REQUIRES: request.prefix is the id of `prefix`, with whose tokens its
  // prompt begins.
  static std::unique_ptr<Sequence> MakeFork(SequenceId id, Request request,
                                            const Sequence& prefix,
                                            RequestObserver* observer);

  SequenceId id() const { return id_; }
  const Request& request() const { return request_; }
  const RequestRope& rope() const { return rope_; }
  RequestObserver& observer() const { return *observer_; }
  // How its first pages were computed, with which it began: BeginCached.
  const std::vector<PageKind>& cached_kinds() const { return cached_kinds_; }
  int num_cached_tokens() const { return num_cached_tokens_; }
  int64_t num_fetched_pages() const { return num_fetched_pages_; }
  // Prompt and generated.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  int num_prompt_tokens() const {
    return static_cast<int>(request_.prompt.size());
  }
  // Of the prompt, how many run as prefill rows.
  int num_prefill_rows() const {
    return num_prompt_tokens() - request_.num_question_tokens;
  }
  int num_generated() const {
    return static_cast<int>(tokens_.size()) - num_prompt_tokens();
  }
  int num_computed() const { return num_computed_; }
  // Tokens whose reads have been counted: those that were computed once.
  int num_counted() const { return num_counted_; }
  bool admitted() const { return admitted_; }
  // It ran, and waits for its return.
  bool preempted() const { return num_preemptions_ > 0 && !admitted_; }
  bool is_prefix() const { return is_prefix_; }
  // It has been read to its last token, which was drawn.
  bool waits_for_one() const {
    return admitted_ && num_generated() > 0 && chunk_tokens_ == 0 &&
           num_computed_ + 1 == std::ssize(tokens_);
  }
  // Of a prefix: no request is to come, it ends with its last fork.
  bool released() const { return released_; }
  // Distinct tokens so far, ascending, with how often each was generated.
  // Empty unless a penalty needs them.
  const std::map<int32_t, int>& seen() const { return seen_; }

  bool layerwise() const { return layerwise_; }
  // It is admitted and not yet read, layer by layer.
  bool reads_by_layers() const {
    return layerwise_ && admitted_ && num_computed_ == 0;
  }

  SequenceSnapshot Snapshot() const;
  // What it will be when the item, which runs whole, has landed, and it has not
  // ended by that.
  SequenceSnapshot SnapshotAfter(const StepItem& item) const;
  // Whether it will end with that, whatever is drawn.
  bool EndsWith(const StepItem& item) const {
    return item.samples && num_generated() + 1 == request_.max_tokens;
  }
  // REQUIRES: it has not been admitted.
  void ReadByLayers() { layerwise_ = true; }
  void Admit();
  // Another one started in its place: Schedule::overtaken.
  void CountOvertaken() { ++num_overtaken_; }
  // Its first pages, one a kind, are there already, the last `num_fetched` from
  // the host.
  // REQUIRES: nothing has been computed, and one row of the prompt is left.
  void BeginCached(std::vector<PageKind> kinds, int64_t num_fetched);
  // It gives its pages back and waits, as one that never ran, but for what it
  // has told. REQUIRES: it runs, and is no prefix.
  void Preempt();
  // It goes on with its first `num_tokens` tokens computed; the first of these
  // pages are of `kinds`. REQUIRES: admitted again, and one token is left.
  void Resume(std::vector<PageKind> kinds, int num_tokens, int64_t num_fetched);
  // More of its first pages are on their way: nothing is computed until
  // EndRestore says which have come, one a kind. REQUIRES: as BeginCached.
  void BeginRestore();
  // Returns as StopWaiting.
  double EndRestore(std::span<const PageKind> kinds);
  // REQUIRES: it is a prefix that has not been released.
  void Release();
  // The item's rows have been computed, in all layers or part of them.
  void Land(const StepItem& item, int num_layers);
  // A decode row has read parts of its context of `num_tokens` in
  // `num_layers` layers, as shares of it `sum_of_shares` in all.
  void CountReads(double sum_of_shares, int num_tokens, int num_layers);
  // So many of its pages were copied to the device.
  void CountFetched(int64_t num_pages) { num_fetched_pages_ += num_pages; }
  // So much of its pages was copied to the host, or written to the disk.
  void CountWritten(int64_t num_bytes) { written_bytes_ += num_bytes; }
  // It waits for the disk no longer. Returns for how long it did, in ms; 0
  // where it does not.
  double StopWaiting();
  // More was fetched for it.
  void CountBrought(const FetchedPieces& pieces) { brought_ += pieces; }
  // The prompt's next token, as the row before it has it.
  // REQUIRES: its request asked, and one is left.
  void TakeScored(GeneratedToken token);
  // Of the prompt's rows, how many have said what comes next; all of them where
  // nobody asks.
  int num_scored() const;
  // Takes in a drawn token. Returns why the request ends now, if it does.
  bool Take(GeneratedToken token, FinishReason* reason);
  // What is said where its deadline has passed. REQUIRES: it has one.
  Error Lateness() const;
  // All but what the KV holds. `num_layers`: of the model.
  Completion Complete(FinishReason reason, int num_layers) const;

 private:
  void CountLanded(int num_tokens);
  // How far a prompt is of which a layer is not whole yet.
  void TellLayerwise(const StepItem& item, int num_layers);
  void SkipCached(int num_tokens);

  SequenceId id_;
  Request request_;
  RequestRope rope_;
  RequestObserver* observer_;
  std::vector<int32_t> tokens_;
  std::map<int32_t, int> seen_;
  int num_computed_ = 0;
  int chunk_tokens_ = 0;
  int next_layer_ = 0;
  bool layerwise_ = false;
  int layer_tokens_ = 0;
  bool admitted_ = false;
  bool is_prefix_ = false;
  bool released_ = false;
  int num_prefix_tokens_ = 0;  // of a fork
  std::vector<PageKind> cached_kinds_;
  int num_cached_tokens_ = 0;  // when it began
  bool is_restoring_ = false;
  Clock::time_point restore_begun_;
  double disk_wait_ms_ = 0;
  int64_t num_fetched_pages_ = 0;
  int64_t written_bytes_ = 0;
  int num_preemptions_ = 0;
  int num_overtaken_ = 0;
  // Of the prompt from its second token on, until the first is drawn.
  std::vector<GeneratedToken> scored_;
  int num_prefilled_ = 0;  // as its observer knows
  int num_counted_ = 0;
  // Over decode rows and layers, and of these a chunk's that is between two
  // layer ranges.
  int64_t num_reads_ = 0, num_chunk_reads_ = 0;
  double sum_of_read_shares_ = 0, sum_of_chunk_shares_ = 0;
  double sum_of_read_tokens_ = 0, sum_of_chunk_tokens_ = 0;
  FetchedPieces brought_;
  Clock::time_point arrived_ = Clock::now();
  Clock::time_point admitted_at_;
  Clock::time_point first_token_at_;
  Clock::time_point last_token_at_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_REQUEST_SEQUENCE_H_
