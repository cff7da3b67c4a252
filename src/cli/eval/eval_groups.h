// EvalGroups: runs the groups of an evaluation through the engine, some at a
// time.
#ifndef WINNOW_CLI_EVAL_EVAL_GROUPS_H_
#define WINNOW_CLI_EVAL_EVAL_GROUPS_H_

#include <functional>
#include <memory>
#include <vector>

#include "cli/eval/eval_answer.h"
#include "engine/engine.h"

namespace winnow {

// Owns the running prefixes and answers. Every group's text is read once for
// all questions and selections, and once more for each selector that acts in
// prompts. Its pages are freed when all its answers are there, so one group at
// a time needs memory. The engine's selectors are the selections; it has none
// if all are dense. REQUIRES: engine, plan and tokenizer outlive this.
//
// With cached texts no prefix is held. Every answer is a request of its own, so
// its pages may leave the device. The first request of a text reads it. The
// others start afterwards and find its pages in the cache, on any tier. (A
// selector that fixes its choice by the prompt's rows reads the text for each
// request.)
class EvalGroups {
 public:
  // Called with each answer as it arrives.
  using OnAnswer =
      std::function<Status(const EvalKey& key, const EvalOutcome& outcome)>;
  struct Setting {
    const EvalPlan* plan = nullptr;
    int num_selects = 1;
    const Tokenizer* tokenizer = nullptr;
    std::vector<int32_t> end_token_ids;
    int max_waiting = 32;  // answers in the engine at one time
    int max_held = 16;     // prefixes with a selector, by the engine's limit
    bool caches_texts = false;  // equals EngineOptions::prefix_caching
  };

  // Skips `known` answers.
  EvalGroups(Engine& engine, const Setting& setting, EvalOutcomes known);
  EvalGroups(const EvalGroups&) = delete;
  EvalGroups& operator=(const EvalGroups&) = delete;
  // Cancels running requests.
  ~EvalGroups();

  // Fails if an answer could never run, even alone; the message names its line.
  // REQUIRES: texts are cached.
  static Status Check(const Engine& engine, const Setting& setting,
                      const EvalGroup& group);

  // Runs one step. False if all answers are there and the disk has all its
  // pages. Fails if the engine or an answer fails; the message then names the
  // line.
  Result<bool> Step(const OnAnswer& on_answer);

  // Tokens to read and generate, in total and done: for progress.
  int64_t total_tokens() const { return total_tokens_; }
  int64_t done_tokens() const { return done_tokens_; }
  // Of the answers so far.
  const KvUse& kv_use() const { return kv_use_; }

 private:
  // Observes a prefix, or refers to the answer that reads the text.
  struct Reader : RequestObserver {
    void OnPrefill(int done, int) override { num_read = done; }
    bool OnToken(const GeneratedToken&) override { return true; }
    void OnFinish(const Completion&) override {}
    std::optional<SequenceId> prefix;
    const EvalAnswer* first_answer = nullptr;  // null: there is a prefix
    int selector = -1;
    int num_answers = 0;  // that share its time
    int num_left = 0;     // not ended
    int num_read = 0;
    int num_counted = 0;
    double seconds = 0;
  };
  struct Asked {
    EvalKey key;
    const EvalQuestion* question;
    EvalAnswer answer;
    Reader* reader = nullptr;  // of its text
    SequenceId id = {};        // of the current or last request
    double seconds = 0;
    bool is_held_back = false;  // until the text has been read
    bool done = false;
  };
  struct Running {
    const EvalGroup* group = nullptr;
    std::vector<std::unique_ptr<Reader>> readers;
    std::vector<std::unique_ptr<Asked>> asked;
  };

  // The selector with which a selection's prefix is read.
  int PromptSelector(int select) const;
  int NumPromptSelectors() const;
  int NumReadings() const;  // readings of a group with all its answers
  bool HasRoomForGroup() const;
  Status Begin(const EvalGroup& group);
  Status AddReaders(Running& running);
  Reader& ReaderOf(Running& running, int select);
  void HoldBack(Running& running);
  Status AskHeldBack();
  Status Ask(Asked& asked, Request request);
  void ShareTime(double seconds);
  Status Collect(const OnAnswer& on_answer);
  Status CollectOne(Asked& asked, const OnAnswer& on_answer);
  static Error ErrorOf(const EvalPlan& plan, const EvalQuestion& question,
                       const Error& error);

  Engine& engine_;
  const Setting setting_;
  const EvalOutcomes known_;
  size_t next_group_ = 0;
  int num_waiting_ = 0;
  int num_held_back_ = 0;  // included above
  double unshared_seconds_ = 0;
  KvUse kv_use_;
  int64_t total_tokens_ = 0;
  int64_t done_tokens_ = 0;
  std::vector<std::unique_ptr<Running>> running_;
};

}  // namespace winnow

#endif  // WINNOW_CLI_EVAL_EVAL_GROUPS_H_
