#include "cli/task/eval_plan.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/ids.h"
#include "cli/command/fingerprint.h"
#include "cli/command/loaded_model.h"
#include "model/config/json_fields.h"

namespace winnow {
namespace {

// Room for an answer that comes in a sentence: as long again, and some words.
constexpr int kAnswerSlackTokens = 32;

bool EndsWithSpace(std::string_view text) {
  return !text.empty() &&
         CollapseWhiteSpace(text.substr(text.size() - 1)) == "";
}

// The last word of `text` with the white space behind it, short.
std::string_view LastWord(std::string_view text) {
  constexpr size_t kMaxBytes = 64;
  size_t at = text.size();
  while (at > 0 && EndsWithSpace(text.substr(0, at))) --at;
  while (at > 0 && !EndsWithSpace(text.substr(0, at)) &&
         text.size() - at < kMaxBytes) {
    --at;
  }
  while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
  return text.substr(at);
}

// Reads one evaluation's files, line by line.
class PlanReader {
 public:
  PlanReader(const Tokenizer& tokenizer, const EvalPlanOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  Status ReadFile(const std::string& path);
  EvalPlan TakePlan() { return std::move(plan_); }

 private:
  Status ReadLine(std::string_view line, int number);
  Result<EvalQuestion> Prepare(const EvalTask& task, const std::string& origin,
                               std::vector<int32_t>* prefix);
  Status EncodeContext(const EvalTask& task);
  Status CheckAnswer(const std::string& answer, const std::string& origin,
                     const EvalQuestion& question) const;
  Status CheckRows(const EvalTask& task, const std::string& origin,
                   const std::vector<int32_t>& prefix,
                   const EvalQuestion& question) const;
  Status SetMaxTokens(int64_t num_before, const std::string& field,
                      EvalQuestion* question);
  Result<std::vector<AnswerForms>> EncodeEach(
      const std::vector<std::string>& answers, const std::string& before) const;
  EvalGroup& GroupOf(const std::vector<int32_t>& prefix);

  const Tokenizer& tokenizer_;
  const EvalPlanOptions options_;
  EvalPlan plan_;
  // Lines about one text stand together as a rule: it is encoded once then.
  std::string context_;
  std::vector<int32_t> context_tokens_;
  std::multimap<uint64_t, size_t> groups_;  // by the prefix's digest
};

Status PlanReader::ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream || std::filesystem::is_directory(path)) {
    return MakeError(ErrorCode::kIo, "{}: cannot be read: {}", path,
                     stream ? "is a folder" : std::strerror(errno));
  }
  plan_.files.push_back({.path = path, .digest = {}});
  Fingerprint digest;
  std::string line;
  int num_lines = 0;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (CollapseWhiteSpace(line).empty()) continue;
    if (options_.limit && num_lines == *options_.limit) break;
    ++num_lines;
    digest.Add(line);
    const Status read = ReadLine(line, number);
    if (read.ok()) continue;
    if (!options_.skip_bad || read.error().code != ErrorCode::kCorrupt) {
      return read;
    }
    plan_.skipped.push_back(read.error().message);
  }
  if (stream.bad()) return MakeError(ErrorCode::kIo, "{}: read failed", path);
  if (num_lines == 0) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: must have at least 1 line, is empty", path);
  }
  plan_.files.back().digest = digest.value();
  return Ok{};
}

Status PlanReader::ReadLine(std::string_view line, int number) {
  const std::string origin =
      fmt::format("{}:{}", plan_.files.back().path, number);
  ASSIGN_OR_RETURN(const EvalTask task, ParseEvalTask(line, origin));
  std::vector<int32_t> prefix;
  ASSIGN_OR_RETURN(EvalQuestion question, Prepare(task, origin, &prefix));
  question.file = static_cast<int>(plan_.files.size()) - 1;
  question.line = number;
  GroupOf(prefix).questions.push_back(std::move(question));
  return Ok{};
}

Status PlanReader::EncodeContext(const EvalTask& task) {
  if (task.context == context_) return Ok{};
  ASSIGN_OR_RETURN(
      context_tokens_,
      tokenizer_.Encode(task.context, /*add_special_tokens=*/true));
  context_ = task.context;
  return Ok{};
}

Result<EvalQuestion> PlanReader::Prepare(const EvalTask& task,
                                         const std::string& origin,
                                         std::vector<int32_t>* prefix) {
  Result<AnswerMatcher> matcher =
      AnswerMatcher::Create({.rule = options_.match,
                             .answers = task.answers,
                             .unordered = task.unordered});
  if (!matcher.ok()) {
    return MakeError(ErrorCode::kCorrupt, "{}: field answers: {}", origin,
                     matcher.error().message);
  }
  EvalQuestion question = {.task = task.task,
                           .length = task.length,
                           .matcher = std::move(matcher).value(),
                           .tokens = {},
                           .answer = {}};
  RETURN_IF_ERROR(EncodeContext(task));
  *prefix = context_tokens_;
  if (task.question) {
    ASSIGN_OR_RETURN(
        question.tokens,
        EncodeAfter(tokenizer_, task.context,
                    Joint(task.context, *task.question) + *task.question));
    question.num_question_tokens = static_cast<int>(question.tokens.size());
  } else if (!prefix->empty()) {
    question.tokens = {prefix->back()};
    prefix->pop_back();
  }
  const std::string asked = task.question ? "question" : "prompt";
  if (question.tokens.empty()) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: field {}: must be at least 1 token, is 0", origin,
                     asked);
  }
  const std::string answer = JoinedAnswers(task.answers);
  const std::string& before = task.question ? *task.question : task.context;
  ASSIGN_OR_RETURN(
      question.answer,
      EncodeAfter(tokenizer_, before, Joint(before, answer) + answer));
  if (question.answer.empty()) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: field answers: must be at least 1 token, is 0",
                     origin);
  }
  RETURN_IF_ERROR(CheckAnswer(answer, origin, question));
  RETURN_IF_ERROR(CheckRows(task, origin, *prefix, question));
  const auto num_before =
      static_cast<int64_t>(prefix->size() + question.tokens.size());
  RETURN_IF_ERROR(SetMaxTokens(
      num_before,
      origin + (task.question ? ": field context" : ": field prompt"),
      &question));
  if (options_.match == MatchRule::kRegex) {
    question.answer.clear();
  } else if (task.unordered) {
    ASSIGN_OR_RETURN(question.unordered, EncodeEach(task.answers, before));
  }
  return question;
}

Status PlanReader::CheckRows(const EvalTask& task, const std::string& origin,
                             const std::vector<int32_t>& prefix,
                             const EvalQuestion& question) const {
  for (const auto& [tokens, field] :
       {std::pair(&prefix, task.question ? "context" : "prompt"),
        std::pair(&question.tokens, task.question ? "question" : "prompt"),
        std::pair(&question.answer, "answers")}) {
    RETURN_IF_ERROR(CheckTokenRows(*tokens, tokenizer_, options_.vocab_size,
                                   fmt::format("{}: field {}", origin, field)));
  }
  return Ok{};
}

// What no token spells, the model cannot write: it would be wrong for ever.
Status PlanReader::CheckAnswer(const std::string& answer,
                               const std::string& origin,
                               const EvalQuestion& question) const {
  if (options_.match == MatchRule::kRegex) return Ok{};
  ASSIGN_OR_RETURN(
      const std::string spelled,
      tokenizer_.Decode(question.answer, /*skip_special_tokens=*/true));
  ASSIGN_OR_RETURN(const bool right, question.matcher.Matches(spelled));
  if (right) return Ok{};
  return MakeError(ErrorCode::kCorrupt,
                   "{}: field answers: must be text that the model's tokens "
                   "spell, {} reads {} in tokens",
                   origin, Printable(answer), Printable(spelled));
}

Status PlanReader::SetMaxTokens(int64_t num_before, const std::string& field,
                                EvalQuestion* question) {
  const auto num_answer = static_cast<int64_t>(question->answer.size());
  const int64_t wanted =
      options_.max_tokens.value_or(2 * num_answer + kAnswerSlackTokens);
  // Slack that is not there is not asked for; what the user asks for is.
  const int64_t needed = std::max(num_answer, options_.max_tokens ? wanted : 1);
  // The last token that is generated is never fed.
  const int64_t room = options_.max_model_len - num_before + 1;
  if (needed > room) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: must fit the context of {} tokens (max-model-len) "
                     "with question and answer, is {} + {}",
                     field, options_.max_model_len, num_before, needed);
  }
  question->max_tokens = static_cast<int>(std::min(wanted, room));
  if (wanted > room && plan_.num_cramped++ == 0) {
    plan_.first_cramped = fmt::format(
        "{}: {} tokens leave {} for the answer in the context of {} "
        "(max-model-len), not {}",
        field, num_before, room, options_.max_model_len, wanted);
  }
  return Ok{};
}

Result<std::vector<AnswerForms>> PlanReader::EncodeEach(
    const std::vector<std::string>& answers, const std::string& before) const {
  std::vector<AnswerForms> each;
  for (const std::string& answer : answers) {
    const std::string text = CollapseWhiteSpace(answer);
    AnswerForms& forms = each.emplace_back();
    ASSIGN_OR_RETURN(
        forms[0], EncodeAfter(tokenizer_, before, Joint(before, text) + text));
    ASSIGN_OR_RETURN(forms[1], EncodeAfter(tokenizer_, text, " " + text));
  }
  std::ranges::stable_sort(each, std::ranges::greater(),
                           [](const AnswerForms& of) { return of[1].size(); });
  return each;
}

EvalGroup& PlanReader::GroupOf(const std::vector<int32_t>& prefix) {
  Fingerprint digest;
  digest.Add({reinterpret_cast<const char*>(prefix.data()),
              prefix.size() * sizeof(int32_t)});
  const auto [begin, end] = groups_.equal_range(digest.value());
  for (auto each = begin; each != end; ++each) {
    EvalGroup& group = plan_.groups[each->second];
    if (group.prefix == prefix) return group;
  }
  groups_.emplace(digest.value(), plan_.groups.size());
  plan_.groups.push_back({.prefix = prefix, .questions = {}});
  return plan_.groups.back();
}

}  // namespace

int EvalGroup::MaxLength() const {
  size_t longest = 0;
  for (const EvalQuestion& question : questions) {
    const auto free_tokens = static_cast<size_t>(question.max_tokens);
    longest =
        std::max(longest, question.tokens.size() +
                              std::max(free_tokens, question.answer.size()));
  }
  return static_cast<int>(prefix.size() + longest);
}

int64_t PrefixPages(const EvalGroup& group) {
  return PagesFor(static_cast<int64_t>(group.prefix.size()));
}

int64_t AnswerPages(const EvalGroup& group) {
  const auto num_shared =
      static_cast<int64_t>(group.prefix.size()) / kPageTokens;
  return PagesFor(int64_t{group.MaxLength()} - 1) - num_shared;
}

int EvalPlan::num_questions() const {
  size_t num_questions = 0;
  for (const EvalGroup& group : groups) num_questions += group.questions.size();
  return static_cast<int>(num_questions);
}

Result<EvalPlan> ReadEvalPlan(const std::vector<std::string>& paths,
                              const Tokenizer& tokenizer,
                              const EvalPlanOptions& options) {
  PlanReader reader(tokenizer, options);
  for (const std::string& path : paths) RETURN_IF_ERROR(reader.ReadFile(path));
  EvalPlan plan = reader.TakePlan();
  if (plan.groups.empty()) {
    return MakeError(ErrorCode::kCorrupt,
                     "no line is left to answer: all {} were skipped, the "
                     "first for: {}",
                     plan.skipped.size(), plan.skipped.front());
  }
  return plan;
}

Result<std::vector<int32_t>> EncodeAfter(const Tokenizer& tokenizer,
                                         std::string_view before,
                                         std::string_view text) {
  // What the last word and the text make together, less the last word: so the
  // text is spelled as inside a text.
  const std::string word(LastWord(before));
  ASSIGN_OR_RETURN(const std::vector<int32_t> alone,
                   tokenizer.Encode(word, /*add_special_tokens=*/false));
  ASSIGN_OR_RETURN(std::vector<int32_t> both,
                   tokenizer.Encode(word + std::string(text),
                                    /*add_special_tokens=*/false));
  const bool begins = both.size() >= alone.size() &&
                      std::equal(alone.begin(), alone.end(), both.begin());
  // Where a token spans the border, none can be had that does not.
  if (!begins) return tokenizer.Encode(text, /*add_special_tokens=*/false);
  both.erase(both.begin(), both.begin() + std::ssize(alone));
  return both;
}

}  // namespace winnow
