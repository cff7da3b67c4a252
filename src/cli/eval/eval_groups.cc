#include "cli/eval/eval_groups.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace winnow {
namespace {

int64_t TokensOf(const EvalQuestion& question) {
  return static_cast<int64_t>(question.tokens.size() + question.answer.size());
}

}  // namespace

EvalGroups::EvalGroups(Engine& engine, const Setting& setting,
                       EvalOutcomes known)
    : engine_(engine), setting_(setting), known_(std::move(known)) {
  for (const EvalGroup& group : setting_.plan->groups) {
    int64_t answers_tokens = 0;
    for (const EvalQuestion& question : group.questions) {
      for (int select = 0; select < setting_.num_selects; ++select) {
        const EvalKey key = {question.file, question.line, select};
        if (!known_.contains(key)) answers_tokens += TokensOf(question);
      }
    }
    if (answers_tokens == 0) continue;
    total_tokens_ +=
        answers_tokens + int64_t{NumReadings()} * std::ssize(group.prefix);
  }
}

EvalGroups::~EvalGroups() {
  for (const auto& running : running_) {
    for (const auto& reader : running->readers) {
      if (reader->prefix) engine_.Cancel(*reader->prefix);
    }
    for (const auto& asked : running->asked) engine_.Cancel(asked->id);
  }
}

Error EvalGroups::ErrorOf(const EvalPlan& plan, const EvalQuestion& question,
                          const Error& error) {
  return MakeError(error.code, "{}:{}: {}",
                   plan.files[static_cast<size_t>(question.file)].path,
                   question.line, error.message);
}

Status EvalGroups::Begin(const EvalGroup& group) {
  auto running = std::make_unique<Running>();
  running->group = &group;
  for (const EvalQuestion& question : group.questions) {
    for (int select = 0; select < setting_.num_selects; ++select) {
      const EvalKey key = {question.file, question.line, select};
      if (known_.contains(key)) continue;
      running->asked.push_back(std::make_unique<Asked>(
          Asked{.key = key,
                .question = &question,
                .answer = EvalAnswer(group, question, *setting_.tokenizer,
                                     setting_.end_token_ids)}));
    }
  }
  if (running->asked.empty()) return Ok{};
  Running& added = *running_.emplace_back(std::move(running));
  for (const auto& asked : added.asked) {
    asked->reader = &ReaderOf(added, asked->key.select);
    ++asked->reader->num_answers;
    ++asked->reader->num_left;
  }
  if (setting_.caches_texts) {
    HoldBack(added);
  } else {
    RETURN_IF_ERROR(AddReaders(added));
  }
  for (const auto& asked : added.asked) {
    if (asked->is_held_back) continue;
    RETURN_IF_ERROR(Ask(*asked, *asked->answer.NextRequest()));
  }
  num_waiting_ += static_cast<int>(added.asked.size());
  return Ok{};
}

Status EvalGroups::AddReaders(Running& running) {
  const EvalGroup& group = *running.group;
  if (group.prefix.empty()) return Ok{};
  for (const auto& reader : running.readers) {
    Prefix prefix = {.tokens = group.prefix,
                     .max_length = group.MaxLength(),
                     .selector = reader->selector};
    Result<SequenceId> id = engine_.AddPrefix(std::move(prefix), reader.get());
    if (!id.ok())
      return ErrorOf(*setting_.plan, group.questions.front(), id.error());
    reader->prefix = *id;
  }
  return Ok{};
}

// All but the first of each reading.
void EvalGroups::HoldBack(Running& running) {
  for (const auto& asked : running.asked) {
    asked->is_held_back = asked->reader->first_answer != nullptr;
    if (!asked->is_held_back) asked->reader->first_answer = &asked->answer;
    num_held_back_ += asked->is_held_back ? 1 : 0;
  }
}

Status EvalGroups::AskHeldBack() {
  if (num_held_back_ == 0) return Ok{};
  for (const auto& running : running_) {
    for (const auto& asked : running->asked) {
      if (!asked->is_held_back) continue;
      if (!asked->reader->first_answer->prompt_is_read()) continue;
      asked->is_held_back = false;
      --num_held_back_;
      RETURN_IF_ERROR(Ask(*asked, *asked->answer.NextRequest()));
    }
  }
  return Ok{};
}

Status EvalGroups::Check(const Engine& engine, const Setting& setting,
                         const EvalGroup& group) {
  for (const EvalQuestion& question : group.questions) {
    const EvalAnswer answer(group, question, *setting.tokenizer,
                            setting.end_token_ids);
    for (Request& request : answer.Extremes()) {
      for (int select = 0; select < setting.num_selects; ++select) {
        request.selector = engine.selectors().size() > 0 ? select : -1;
        const Status status = engine.Check(request);
        if (!status.ok())
          return ErrorOf(*setting.plan, question, status.error());
      }
    }
  }
  return Ok{};
}

int EvalGroups::PromptSelector(int select) const {
  const SelectorSet& selectors = engine_.selectors();
  if (selectors.size() == 0) return -1;
  return BelongsToPrompt(selectors.selector(select).program) ? select : -1;
}

int EvalGroups::NumPromptSelectors() const {
  int count = 0;
  for (int i = 0; i < engine_.selectors().size(); ++i) {
    if (PromptSelector(i) >= 0) ++count;
  }
  return count;
}

int EvalGroups::NumReadings() const {
  const int num_prompt = NumPromptSelectors();
  return num_prompt + (num_prompt < setting_.num_selects ? 1 : 0);
}

// A group alone always runs, or the engine says why not. What a text left is to
// be used before another one's pages take its place.
bool EvalGroups::HasRoomForGroup() const {
  if (setting_.caches_texts) {
    return num_waiting_ < setting_.max_waiting && num_held_back_ == 0;
  }
  const int num_held =
      (static_cast<int>(running_.size()) + 1) * NumPromptSelectors();
  return num_waiting_ < setting_.max_waiting &&
         (running_.empty() || num_held <= setting_.max_held);
}

EvalGroups::Reader& EvalGroups::ReaderOf(Running& running, int select) {
  const int selector = PromptSelector(select);
  for (const auto& reader : running.readers) {
    if (reader->selector == selector) return *reader;
  }
  auto reader = std::make_unique<Reader>();
  reader->selector = selector;
  return *running.readers.emplace_back(std::move(reader));
}

Status EvalGroups::Ask(Asked& asked, Request request) {
  request.prefix = asked.reader->prefix;  // None where texts are cached.
  if (engine_.selectors().size() > 0) request.selector = asked.key.select;
  const Result<SequenceId> id = engine_.Add(std::move(request), &asked.answer);
  if (!id.ok()) return ErrorOf(*setting_.plan, *asked.question, id.error());
  asked.id = *id;
  return Ok{};
}

Result<bool> EvalGroups::Step(const OnAnswer& on_answer) {
  using Clock = std::chrono::steady_clock;
  const auto& groups = setting_.plan->groups;
  while (HasRoomForGroup() && next_group_ < groups.size()) {
    RETURN_IF_ERROR(Begin(groups[next_group_++]));
  }
  if (running_.empty()) return engine_.Step();
  const Clock::time_point start = Clock::now();
  ASSIGN_OR_RETURN(const bool more, engine_.Step());
  CHECK(more, "groups={} have nothing to run", running_.size());
  ShareTime(std::chrono::duration<double>(Clock::now() - start).count());
  RETURN_IF_ERROR(AskHeldBack());
  RETURN_IF_ERROR(Collect(on_answer));
  return true;
}

// By rows: those of a step take about the same time each. What was waited, for
// a disk or for rows that had been there, goes with the rows that came next.
void EvalGroups::ShareTime(double seconds) {
  int64_t num_rows = 0;
  std::vector<std::pair<int64_t, double*>> shares;
  for (const auto& running : running_) {
    for (const auto& reader : running->readers) {
      if (reader->first_answer != nullptr) {
        reader->num_read = reader->first_answer->num_text_read();
      }
      const int num_new = reader->num_read - reader->num_counted;
      shares.emplace_back(num_new, &reader->seconds);
      done_tokens_ += num_new;
      reader->num_counted = reader->num_read;
    }
    for (const auto& asked : running->asked) {
      shares.emplace_back(asked->answer.TakeRows(), &asked->seconds);
    }
  }
  for (const auto& [rows, share] : shares) num_rows += rows;
  unshared_seconds_ += seconds;
  if (num_rows == 0) return;
  const double row_seconds =
      std::exchange(unshared_seconds_, 0) / static_cast<double>(num_rows);
  for (const auto& [rows, share] : shares) {
    *share += row_seconds * static_cast<double>(rows);
  }
}

Status EvalGroups::CollectOne(Asked& asked, const OnAnswer& on_answer) {
  if (asked.done || asked.is_held_back || asked.answer.running()) return Ok{};
  if (asked.answer.error()) {
    return ErrorOf(*setting_.plan, *asked.question, *asked.answer.error());
  }
  std::optional<Request> request = asked.answer.NextRequest();
  if (request) return Ask(asked, std::move(*request));
  asked.done = true;
  --num_waiting_;
  Reader& reader = *asked.reader;
  if (--reader.num_left == 0 && reader.prefix) {
    engine_.Release(*std::exchange(reader.prefix, std::nullopt));
  }
  done_tokens_ += TokensOf(*asked.question);
  kv_use_ += asked.answer.kv_use();
  EvalOutcome outcome = asked.answer.outcome();
  // The text was read for all of them.
  outcome.seconds =
      asked.seconds +
      asked.reader->seconds / static_cast<double>(asked.reader->num_answers);
  return on_answer(asked.key, outcome);
}

Status EvalGroups::Collect(const OnAnswer& on_answer) {
  for (const auto& running : running_) {
    bool all_done = true;
    for (const auto& asked : running->asked) {
      RETURN_IF_ERROR(CollectOne(*asked, on_answer));
      all_done &= asked->done;
    }
    if (all_done) running->group = nullptr;
  }
  std::erase_if(running_,
                [](const auto& running) { return running->group == nullptr; });
  return Ok{};
}

}  // namespace winnow
