#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/size_text.h"
#include "cli/command/end_tokens.h"
#include "cli/command/interrupt.h"
#include "cli/command/loaded_model.h"
#include "cli/command/output.h"
#include "cli/command/progress.h"
#include "cli/eval/eval.h"
#include "cli/eval/eval_groups.h"
#include "cli/eval/eval_identity.h"
#include "cli/eval/eval_journal.h"
#include "cli/task/written_file.h"

namespace winnow {
namespace {

constexpr size_t kMostSkippedShown = 10;

// One command's work.
class EvalRun {
 public:
  explicit EvalRun(const EvalFlags& flags) : flags_(flags) {}

  Result<int> Run();

 private:
  Status CheckFlags();
  int MaxModelLen() const;
  ModelUse ModelUseOf() const;
  Status ReadPlan();
  void ShowSkipped() const;
  Status MakeEngine();
  int64_t DeviceKvBytes() const;
  EvalGroups::Setting GroupsSetting() const;
  Status CheckPoolHolds(const EvalGroup& group) const;
  Status CheckHasRoom(const EvalGroup& group) const;
  // What has none is refused, or with --skip-bad left out.
  Status LeaveWhatHasRoom();
  Status OpenJournal();
  Result<bool> RunToTheEnd();  // false where it was interrupted
  Status Report(bool ended);
  void PrintClosingLine(bool ended, double seconds) const;
  int num_answers() const {
    return plan_.num_questions() * static_cast<int>(selects_.size());
  }

  const EvalFlags& flags_;
  Interrupt interrupt_;  // before any thread
  MatchRule match_ = MatchRule::kContains;
  std::vector<std::string> selects_;
  LoadedModel loaded_;
  EngineOptions options_;
  EvalPlan plan_;
  EvalOutcomes outcomes_;
  int num_resumed_ = 0;
  std::optional<EvalJournal> journal_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<EvalGroups> groups_;
};

Status EvalRun::CheckFlags() {
  ASSIGN_OR_RETURN(match_, ParseMatchRule(flags_.match));
  ASSIGN_OR_RETURN(selects_, SplitSelects(flags_.engine.select));
  RETURN_IF_ERROR(CheckEngineFlags(flags_.engine, selects_));
  ASSIGN_OR_RETURN(options_, ParseEngineOptions(flags_.engine));
  RETURN_IF_ERROR(KvDiskBytes(flags_.kv_disk));
  RETURN_IF_ERROR(CheckIsNoTaskFile("--json", flags_.engine.json_file));
  RETURN_IF_ERROR(CheckIsNoTaskFile("--resume", flags_.resume));
  // The answers are removed once the table is there.
  RETURN_IF_ERROR(CheckAreTwoFiles("--resume", flags_.resume, "--json",
                                   flags_.engine.json_file));
  for (const std::string& file : flags_.tasks.files) {
    RETURN_IF_ERROR(
        CheckAreTwoFiles("--json", flags_.engine.json_file, "FILE", file));
    RETURN_IF_ERROR(CheckAreTwoFiles("--resume", flags_.resume, "FILE", file));
  }
  return CheckJsonFile(flags_.engine);
}

int EvalRun::MaxModelLen() const {
  if (options_.max_model_len > 0) return options_.max_model_len;
  return static_cast<int>(
      std::min<int64_t>(loaded_.model->config().max_context_tokens, INT32_MAX));
}

ModelUse EvalRun::ModelUseOf() const {
  return {.has_identity =
              KeepsKv(flags_.kv_disk) || !EvalJournalPath(flags_).empty()};
}

Status EvalRun::ReadPlan() {
  const EvalPlanOptions options = {
      .match = match_,
      .max_model_len = MaxModelLen(),
      .vocab_size = loaded_.model->config().vocab_size,
      .max_tokens = flags_.tasks.max_tokens,
      .limit = flags_.tasks.limit,
      .skip_bad = flags_.tasks.skip_bad};
  ASSIGN_OR_RETURN(
      plan_, ReadEvalPlan(flags_.tasks.files, *loaded_.tokenizer, options));
  return Ok{};
}

void EvalRun::ShowSkipped() const {
  const size_t num_shown = std::min(plan_.skipped.size(), kMostSkippedShown);
  for (size_t i = 0; i < num_shown; ++i) {
    std::fprintf(stderr, "winnow: skipped: %s\n", plan_.skipped[i].c_str());
  }
  if (!plan_.skipped.empty()) {
    std::fprintf(stderr, "winnow: skipped %zu bad lines; questions left: %d\n",
                 plan_.skipped.size(), plan_.num_questions());
  }
  if (plan_.num_cramped > 0) {
    PrintError(
        fmt::format("{}{}", plan_.first_cramped,
                    plan_.num_cramped == 1
                        ? std::string()
                        : fmt::format("; so {} lines", plan_.num_cramped)));
  }
}

// As much as the texts that can run together need, the largest at worst.
int64_t EvalRun::DeviceKvBytes() const {
  std::vector<int64_t> group_pages;
  int64_t answer_pages = 0;
  for (const EvalGroup& group : plan_.groups) {
    group_pages.push_back(PrefixPages(group) + AnswerPages(group));
    answer_pages = std::max(answer_pages, AnswerPages(group));
  }
  std::sort(group_pages.rbegin(), group_pages.rend());
  const auto num_seqs = static_cast<size_t>(std::max(options_.max_num_seqs, 1));
  int64_t num_pages = answer_pages * static_cast<int64_t>(num_seqs);
  for (size_t i = 0; i < std::min(group_pages.size(), num_seqs + 1); ++i) {
    num_pages += group_pages[i];
  }
  return KvBytesFor(loaded_, num_pages);
}

Status EvalRun::MakeEngine() {
  // Texts that are read once for several questions are prefixes; whatever else
  // they have in common, each is read and timed by itself. A prefix stays on
  // the device, so where there is more below it texts are cached instead.
  options_.prefix_caching =
      options_.host_kv_bytes > 0 || !flags_.kv_disk.folder.empty();
  options_.max_num_seqs = std::min(options_.max_num_seqs, num_answers());
  if (flags_.engine.device_kv.empty()) {
    options_.device_kv_bytes = DeviceKvBytes();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<DiskStore> disk,
                   OpenKvDisk(flags_.kv_disk, loaded_, flags_.engine.quiet));
  ASSIGN_OR_RETURN(engine_, Engine::Create(*loaded_.backend, *loaded_.model,
                                           options_, std::move(disk)));
  return LeaveWhatHasRoom();
}

Status EvalRun::CheckHasRoom(const EvalGroup& group) const {
  return options_.prefix_caching
             ? EvalGroups::Check(*engine_, GroupsSetting(), group)
             : CheckPoolHolds(group);
}

Status EvalRun::LeaveWhatHasRoom() {
  std::vector<EvalGroup> with_room;
  Status last = Ok{};
  for (EvalGroup& group : plan_.groups) {
    const Status status = CheckHasRoom(group);
    if (status.ok()) {
      with_room.push_back(std::move(group));
      continue;
    }
    if (!flags_.tasks.skip_bad) return status;
    // For each of its lines.
    plan_.skipped.insert(plan_.skipped.end(), group.questions.size(),
                         status.error().message);
    last = status;
  }
  plan_.groups = std::move(with_room);
  return plan_.groups.empty() ? last : Status(Ok{});
}

EvalGroups::Setting EvalRun::GroupsSetting() const {
  return {
      .plan = &plan_,
      .num_selects = static_cast<int>(selects_.size()),
      .tokenizer = loaded_.tokenizer.get(),
      .end_token_ids = EndTokenIds(loaded_.model->config(), *loaded_.tokenizer),
      .max_waiting = 2 * options_.max_num_seqs,
      .max_held = options_.max_num_seqs,
      .caches_texts = options_.prefix_caching};
}

Status EvalRun::CheckPoolHolds(const EvalGroup& group) const {
  const int64_t num_pages = PrefixPages(group) + AnswerPages(group);
  if (num_pages <= engine_->kv().num_pages()) return Ok{};
  const int64_t page_bytes =
      engine_->device_kv_bytes() / engine_->kv().num_pages();
  const EvalQuestion& question = group.questions.front();
  return MakeError(
      ErrorCode::kResourceExhausted,
      "{}:{}: KV of text and answer ({} tokens) needs {}, device-kv holds {}",
      plan_.files[static_cast<size_t>(question.file)].path, question.line,
      group.MaxLength(), FormatBytes(num_pages * page_bytes),
      FormatBytes(engine_->device_kv_bytes()));
}

Status EvalRun::OpenJournal() {
  const std::string path = EvalJournalPath(flags_);
  if (path.empty()) return Ok{};
  const std::vector<int32_t> end_token_ids = GroupsSetting().end_token_ids;
  ASSIGN_OR_RETURN(
      const EvalIdentity identity,
      EvalIdentityOf(flags_, *loaded_.model, plan_, end_token_ids));
  ASSIGN_OR_RETURN(EvalJournal journal,
                   EvalJournal::Open(path, identity, &outcomes_));
  journal_.emplace(std::move(journal));
  num_resumed_ = static_cast<int>(outcomes_.size());
  if (num_resumed_ > 0 && !flags_.engine.quiet) {
    std::fprintf(stderr, "winnow: %s has %d of %d answers, the others follow\n",
                 path.c_str(), num_resumed_, num_answers());
  }
  return Ok{};
}

Result<bool> EvalRun::RunToTheEnd() {
  groups_ = std::make_unique<EvalGroups>(*engine_, GroupsSetting(), outcomes_);
  Progress progress(
      fmt::format("{} answers", FormatCount(num_answers() - num_resumed_)),
      !flags_.engine.quiet);
  while (!interrupt_.Requested()) {
    ASSIGN_OR_RETURN(
        const bool more,
        groups_->Step(
            [this](const EvalKey& key, const EvalOutcome& outcome) -> Status {
              // Behind what it was computed with, before it is kept.
              RETURN_IF_ERROR(loaded_.model->weights().CheckFiles());
              outcomes_[key] = outcome;
              return journal_ ? journal_->Append(key, outcome) : Status(Ok{});
            }));
    if (!more) return true;
    progress.Update(groups_->done_tokens(), groups_->total_tokens());
    // The table is all that there will be; a file is there without it.
    if (flags_.engine.json_file.empty()) RETURN_IF_ERROR(CheckOutputIsRead());
  }
  return false;
}

Status EvalRun::Report(bool ended) {
  const std::vector<EvalRow> rows = MakeEvalRows(plan_, selects_, outcomes_);
  const EngineFlags& engine = flags_.engine;
  const std::string json = EvalJson(engine.model, std::ssize(plan_.skipped),
                                    groups_->kv_use(), rows) +
                           "\n";
  const bool to_file = !engine.json_file.empty();
  // A file of results is a whole one.
  if (engine.json && (ended || !to_file)) {
    RETURN_IF_ERROR(WriteJson(engine, json));
  }
  if (!engine.json || to_file) Print(EvalTable(rows));
  // Answers are kept until they are somewhere else.
  if (!to_file) RETURN_IF_ERROR(FlushOutput());
  if (!ended) return Ok{};
  return journal_ ? journal_->Remove() : Status(Ok{});
}

// "KV 99 of 1,024 prompt tokens cached, 93.0 % of 1,204 picks near; ".
std::string CachedText(const KvUse& use) {
  std::string text;
  if (use.cached_tokens > 0) {
    text = fmt::format("{} of {} prompt tokens cached",
                       FormatCount(use.cached_tokens),
                       FormatCount(use.prompt_tokens));
  }
  const std::string picks = PicksText(use);
  if (!text.empty() && !picks.empty()) text += ", ";
  text += picks;
  return text.empty() ? text : "KV " + text + "; ";
}

void EvalRun::PrintClosingLine(bool ended, double seconds) const {
  if (flags_.engine.quiet) return;
  PrintDiskFailures(*engine_);
  if (ended) {
    std::fprintf(stderr, "%s answers to %s texts in %s; %sloaded in %s\n",
                 FormatCount(num_answers() - num_resumed_).c_str(),
                 FormatCount(std::ssize(plan_.groups)).c_str(),
                 FormatSeconds(seconds).c_str(),
                 CachedText(groups_->kv_use()).c_str(),
                 FormatSeconds(loaded_.load_ms / 1000).c_str());
    return;
  }
  const std::string kept =
      journal_ ? journal_->path() +
                     " keeps them; the same command goes on from there"
               : "--json FILE or --resume FILE would have kept them";
  std::fprintf(stderr, "winnow: interrupted after %zu of %d answers; %s\n",
               outcomes_.size(), num_answers(), kept.c_str());
}

Result<int> EvalRun::Run() {
  RETURN_IF_ERROR(CheckFlags());
  ASSIGN_OR_RETURN(loaded_, OpenModel(flags_.engine, ModelUseOf()));
  ASSIGN_OR_RETURN(
      options_.selectors,
      SelectorsOf(selects_, loaded_.model->config().native_selector));
  for (const std::string& selector : options_.selectors) {
    const Result<Selector> made =
        MakeSelector(selector, SelectorShapeOf(*loaded_.model, MaxModelLen()));
    if (!made.ok()) return made.error();
  }
  RETURN_IF_ERROR(ReadPlan());
  interrupt_.Hold();
  RETURN_IF_ERROR(MakeEngine());
  ShowSkipped();
  RETURN_IF_ERROR(OpenJournal());
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(const bool ended, RunToTheEnd());
  const std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start;
  RETURN_IF_ERROR(Report(ended));
  PrintClosingLine(ended, elapsed.count());
  return ended ? 0 : kInterruptedStatus;
}

}  // namespace

Result<int> RunEval(const EvalFlags& flags) { return EvalRun(flags).Run(); }

}  // namespace winnow
