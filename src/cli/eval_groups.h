// The groups of an evaluation, some at a time, through the engine.
#ifndef WINNOW_CLI_EVAL_GROUPS_H_
#define WINNOW_CLI_EVAL_GROUPS_H_

#include <functional>
#include <memory>
#include <vector>

#include "cli/eval_answer.h"
#include "engine/engine.h"

namespace winnow {

// Owns what runs: the prefixes that are held, and the answers on them. Every
// group is read once, whatever is asked about it and by which selections, and
// once more for each that acts in prompts; it is given back when all its
// answers are there. The engine's selectors are the selections; it has none
// where all are dense. Engine, plan and tokenizer outlive this.
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
  };

  // `known` are left out.
  EvalGroups(Engine& engine, const Setting& setting, EvalOutcomes known);
  EvalGroups(const EvalGroups&) = delete;
  EvalGroups& operator=(const EvalGroups&) = delete;
  // Cancels what still runs.
  ~EvalGroups();

  // Runs one step; false where all answers are there. Fails where the engine
  // or an answer does; the message then names its line.
  Result<bool> Step(const OnAnswer& on_answer);

  // Tokens to be read and answered, and those that have been: for progress.
  int64_t total_tokens() const { return total_tokens_; }
  int64_t done_tokens() const { return done_tokens_; }

 private:
  // Hears of a prefix.
  struct Reader : RequestObserver {
    void OnPrefill(int done, int) override { num_read = done; }
    bool OnToken(const GeneratedToken&) override { return true; }
    void OnFinish(const Completion&) override {}
    std::optional<SequenceId> prefix;
    int selector = -1;
    int num_answers = 0;  // that share its time
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
  Reader& ReaderOf(Running& running, int select);
  Status Ask(Asked& asked, Request request);
  void ShareTime(double seconds);
  Status Collect(const OnAnswer& on_answer);
  Status CollectOne(Asked& asked, const OnAnswer& on_answer);
  Error ErrorOf(const EvalQuestion& question, const Error& error) const;

  Engine& engine_;
  const Setting setting_;
  const EvalOutcomes known_;
  size_t next_group_ = 0;
  int num_waiting_ = 0;
  int64_t total_tokens_ = 0;
  int64_t done_tokens_ = 0;
  std::vector<std::unique_ptr<Running>> running_;
};

}  // namespace winnow

#endif  // WINNOW_CLI_EVAL_GROUPS_H_
