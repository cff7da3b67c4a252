#include "cli/task/eval_task.h"

#include "model/config/json_fields.h"

namespace winnow {
namespace {

constexpr JsonLimits kTaskLimits = {.max_bytes = size_t{1} << 30,
                                    .max_depth = 64};
constexpr IntegerRange kLengths = {.min = 0, .max = INT64_MAX};

// How long a UTF-8 character is that begins with `byte`; 0: none does.
int CharacterBytes(unsigned char byte) {
  if (byte < 0x80) return 1;
  if (byte >= 0xC2 && byte < 0xE0) return 2;
  if (byte >= 0xE0 && byte < 0xF0) return 3;
  return byte >= 0xF0 && byte < 0xF5 ? 4 : 0;
}

// Where `text` stops being UTF-8 for a reader of bytes, if it does: the JSON
// parser says no more than that it stopped.
std::optional<size_t> NotUtf8At(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const int num_bytes = CharacterBytes(static_cast<unsigned char>(text[at]));
    if (num_bytes == 0) return at;
    for (int i = 1; i < num_bytes; ++i) {
      const size_t next = at + static_cast<size_t>(i);
      if (next >= text.size() || (text[next] & 0xC0) != 0x80) return at;
    }
    at += static_cast<size_t>(num_bytes);
  }
  return std::nullopt;
}

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

Result<std::string> TextOf(const JsonFields& fields, std::string_view name) {
  ASSIGN_OR_RETURN(std::string text, fields.Text(name));
  if (IsBlank(text)) return fields.Unexpected(name, "a text that is not blank");
  return text;
}

Status ReadQuestion(const JsonFields& fields, EvalTask* task) {
  if (!fields.Has("prompt")) {
    if (!fields.Has("context") && !fields.Has("question")) {
      return fields.Unexpected("prompt",
                               "a text, or else context and question");
    }
    ASSIGN_OR_RETURN(task->context, TextOf(fields, "context"));
    ASSIGN_OR_RETURN(task->question, TextOf(fields, "question"));
    return Ok{};
  }
  for (const char* other : {"context", "question"}) {
    if (fields.Has(other)) {
      return fields.Unexpected(other, "missing where there is a prompt");
    }
  }
  ASSIGN_OR_RETURN(task->context, TextOf(fields, "prompt"));
  return Ok{};
}

Result<EvalTask> ReadTask(const JsonFields& fields) {
  EvalTask task;
  ASSIGN_OR_RETURN(task.task, TextOf(fields, "task"));
  ASSIGN_OR_RETURN(task.length, fields.Integer("length", kLengths));
  RETURN_IF_ERROR(ReadQuestion(fields, &task));
  ASSIGN_OR_RETURN(task.answers, fields.Texts("answers"));
  bool good = !task.answers.empty();
  for (const std::string& answer : task.answers) good &= !IsBlank(answer);
  if (!good) {
    return fields.Unexpected("answers",
                             "a list of at least 1 text, none of them blank");
  }
  ASSIGN_OR_RETURN(task.unordered, fields.Flag("unordered", false));
  return task;
}

}  // namespace

Result<EvalTask> ParseEvalTask(std::string_view line,
                               const std::string& origin) {
  const Result<JsonFields> fields =
      JsonFields::Parse(line, origin, kTaskLimits);
  if (!fields.ok()) {
    const std::optional<size_t> at = NotUtf8At(line);
    if (!at) return fields.error();
    return MakeError(ErrorCode::kCorrupt,
                     "{}: must be UTF-8, byte {} of the line is 0x{:02x}",
                     origin, *at + 1, static_cast<unsigned char>(line[*at]));
  }
  Result<EvalTask> task = ReadTask(*fields);
  if (task.ok()) return task;
  // A field out of range is the file's fault, not the command line's.
  return Error{ErrorCode::kCorrupt, task.error().message};
}

std::string Joint(std::string_view before, std::string_view text) {
  const bool there =
      (!before.empty() && IsBlank(before.substr(before.size() - 1))) ||
      (!text.empty() && IsBlank(text.substr(0, 1)));
  return there ? "" : " ";
}

std::string WholePrompt(const EvalTask& task) {
  if (!task.question) return task.context;
  return task.context + Joint(task.context, *task.question) + *task.question;
}

std::string JoinedAnswers(const std::vector<std::string>& answers) {
  std::string joined;
  for (const std::string& answer : answers) {
    if (!joined.empty()) joined += ' ';
    joined += answer;
  }
  return joined;
}

}  // namespace winnow
