// The groups of an evaluation, some at a time, through the engine.
#ifndef WINNOW_CLI_EVAL_EVAL_GROUPS_H_
#define WINNOW_CLI_EVAL_EVAL_GROUPS_H_

#include <functional>
#include <memory>
#include <vector>

#include "cli/eval/eval_answer.h"
#include "engine/engine.h"

namespace winnow {

// Owns what runs: the prefixes that are held, and the answers on them. Every
// group is read once, whatever is asked about it and by which selections, and
// once more for each that acts in prompts; each reading is given back when all
// answers on it are there, so one at a time needs room. The engine's selectors
// are the selections; it has none where all are dense. Engine, plan and
// tokenizer outlive this.
//
// Where texts are cached nothing is held: every answer is a request of its own,
// so its pages may leave the device. The first of a text reads it; the others
// are asked when it has, and begin with what it left, wherever that lies. (A
// selector that fixes its choice by the prompt's rows reads the text for each.)
class EvalGroups {
 public:
  // What is called with each answer, as it comes.
  using OnAnswer =
      std::function<Status(const EvalKey& key, const EvalOutcome& outcome)>;
  struct Setting {
    const EvalPlan* plan = nullptr;
    int num_selects = 1;
    const Tokenizer* tokenizer = nullptr;
    std::vector<int32_t> end_token_ids;
    int max_waiting = 32;  // answers in the engine, beyond which none are added
    int max_held = 16;  // prefixes with a selector, as the engine limits them
    bool caches_texts = false;  // as EngineOptions::prefix_caching is
  };

  // `known` are left out.
  EvalGroups(Engine& engine, const Setting& setting, EvalOutcomes known);
  EvalGroups(const EvalGroups&) = delete;
  EvalGroups& operator=(const EvalGroups&) = delete;
  // Cancels what still runs.
  ~EvalGroups();

  // Fails where an answer could never run, were it alone; the message names its
  // line. REQUIRES: texts are cached.
  static Status Check(const Engine& engine, const Setting& setting,
                      const EvalGroup& group);

  // Runs one step; false where all answers are there, and a disk has what it is
  // to keep. Fails where the engine or an answer does; the message then names
  // its line.
  Result<bool> Step(const OnAnswer& on_answer);

  // Tokens to be read and answered, and those that have been: for progress.
  int64_t total_tokens() const { return total_tokens_; }
  int64_t done_tokens() const { return done_tokens_; }
  // Of the answers that are there.
  const KvUse& kv_use() const { return kv_use_; }

 private:
  // Hears of a prefix, or has an answer that reads the text.
  struct Reader : RequestObserver {
    void OnPrefill(int done, int) override { num_read = done; }
    bool OnToken(const GeneratedToken&) override { return true; }
    void OnFinish(const Completion&) override {}
    std::optional<SequenceId> prefix;
    const EvalAnswer* first_answer = nullptr;  // null: there is a prefix
    int selector = -1;
    int num_answers = 0;  // that share its time
    int num_left = 0;     // of these
    int num_read = 0;
    int num_counted = 0;
    double seconds = 0;
  };
  struct Asked {
    EvalKey key;
    const EvalQuestion* question;
    EvalAnswer answer;
    Reader* reader = nullptr;  // of what it begins with
    SequenceId id = {};        // of the request that runs or ran last
    double seconds = 0;
    bool is_held_back = false;  // until the text has been read
    bool done = false;
  };
  struct Running {
    const EvalGroup* group = nullptr;
    std::vector<std::unique_ptr<Reader>> readers;
    std::vector<std::unique_ptr<Asked>> asked;
  };

  // The selector that a selection's prefix is read with.
  int PromptSelector(int select) const;
  int NumPromptSelectors() const;
  int NumReadings() const;  // of a group, where all its answers are wanted
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
  int num_held_back_ = 0;  // of these
  double unshared_seconds_ = 0;
  KvUse kv_use_;
  int64_t total_tokens_ = 0;
  int64_t done_tokens_ = 0;
  std::vector<std::unique_ptr<Running>> running_;
};

}  // namespace winnow

#endif  // WINNOW_CLI_EVAL_EVAL_GROUPS_H_
