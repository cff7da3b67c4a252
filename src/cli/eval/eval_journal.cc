#include "cli/eval/eval_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "model/config/json_fields.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

constexpr JsonLimits kJournalLimits = {};
constexpr IntegerRange kCounts = {.min = 0, .max = INT32_MAX};
// 2: answers in any order count wherever they stand. 3: what the model is, by
// name, and all bytes of its weights.
constexpr int kVersion = 3;

Error SystemError(std::string_view what, const std::string& path) {
  return MakeError(ErrorCode::kIo, "{}: cannot {}: {}", path, what,
                   std::strerror(errno));
}

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string HeaderOf(const EvalIdentity& identity) {
  Json header = {{"winnow_eval", kVersion}};
  for (const auto& [name, value] : identity) header[name] = value;
  return Dump(header);
}

std::string LineOf(const EvalKey& key, const EvalOutcome& outcome) {
  return Dump({{"file", key.file},
               {"line", key.line},
               {"select", key.select},
               {"exact", outcome.exact},
               {"num_answer_tokens", outcome.num_answer_tokens},
               {"num_right", outcome.num_right},
               {"num_free_right", outcome.num_free_right},
               {"num_generated_rows", outcome.num_decode_rows},
               {"tokens_read_share", outcome.tokens_read_share},
               {"seconds", outcome.seconds}});
}

Status ReadLine(const JsonFields& fields, EvalOutcomes* outcomes) {
  const auto count = [&](std::string_view name) -> Result<int> {
    ASSIGN_OR_RETURN(const int64_t value, fields.Integer(name, kCounts));
    return static_cast<int>(value);
  };
  EvalKey key;
  ASSIGN_OR_RETURN(key.file, count("file"));
  ASSIGN_OR_RETURN(key.line, count("line"));
  ASSIGN_OR_RETURN(key.select, count("select"));
  EvalOutcome outcome;
  ASSIGN_OR_RETURN(outcome.exact, fields.Flag("exact"));
  ASSIGN_OR_RETURN(outcome.num_answer_tokens, count("num_answer_tokens"));
  ASSIGN_OR_RETURN(outcome.num_right, count("num_right"));
  ASSIGN_OR_RETURN(outcome.num_free_right, count("num_free_right"));
  ASSIGN_OR_RETURN(outcome.num_decode_rows, count("num_generated_rows"));
  ASSIGN_OR_RETURN(outcome.tokens_read_share,
                   fields.Number("tokens_read_share", {.min = 0, .max = 1}));
  ASSIGN_OR_RETURN(outcome.seconds,
                   fields.Number("seconds", {.min = 0, .max = 1e12}));
  (*outcomes)[key] = outcome;
  return Ok{};
}

}  // namespace

EvalJournal::EvalJournal(EvalJournal&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

EvalJournal& EvalJournal::operator=(EvalJournal&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

EvalJournal::~EvalJournal() {
  if (fd_ >= 0) close(fd_);
}

Result<EvalJournal> EvalJournal::Open(const std::string& path,
                                      const EvalIdentity& identity,
                                      EvalOutcomes* outcomes) {
  EvalJournal journal(path,
                      open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (journal.fd_ < 0) return SystemError("open", path);
  if (flock(journal.fd_, LOCK_EX | LOCK_NB) != 0) {
    return MakeError(ErrorCode::kIo, "{}: another evaluation is writing to it",
                     path);
  }
  ASSIGN_OR_RETURN(std::string content, journal.ReadAll());
  const std::string header = HeaderOf(identity);
  // A header that was cut off is no header yet.
  if (content.find('\n') == std::string::npos && header.starts_with(content)) {
    if (ftruncate(journal.fd_, 0) != 0) return SystemError("write", path);
    const Status written = journal.WriteLine(header);
    // A full disk: no empty file stays behind.
    if (!written.ok()) {
      unlink(path.c_str());
      return written.error();
    }
    return journal;
  }
  EvalOutcomes read;
  size_t begin = 0;
  for (int number = 1; begin < content.size(); ++number) {
    const size_t end = content.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string line = content.substr(begin, end - begin);
    begin = end + 1;
    if (number == 1) {
      RETURN_IF_ERROR(journal.CheckHeader(line, identity));
      continue;
    }
    ASSIGN_OR_RETURN(const JsonFields fields,
                     JsonFields::Parse(line, fmt::format("{}:{}", path, number),
                                       kJournalLimits));
    RETURN_IF_ERROR(ReadLine(fields, &read));
  }
  if (begin == 0) return journal.CheckHeader(content, identity).error();
  if (ftruncate(journal.fd_, static_cast<off_t>(begin)) != 0) {
    return SystemError("write", path);
  }
  outcomes->merge(read);
  return journal;
}

Status EvalJournal::CheckHeader(const std::string& line,
                                const EvalIdentity& identity) const {
  const Result<JsonFields> fields =
      JsonFields::Parse(line, path_ + ":1", kJournalLimits);
  if (!fields.ok() || !fields->Has("winnow_eval")) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: must be what winnow eval writes while it runs, is "
                     "another file",
                     path_);
  }
  ASSIGN_OR_RETURN(const int64_t version,
                   fields->Integer("winnow_eval", kCounts));
  const auto differs = [&](std::string_view name, std::string_view wanted,
                           std::string_view found) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: is of another evaluation: {} must be {}, is {}; "
                     "remove it to begin anew",
                     path_, Printable(name), Printable(wanted),
                     Printable(found));
  };
  if (version != kVersion) {
    return differs("winnow_eval", fmt::format("{}", kVersion),
                   fmt::format("{}", version));
  }
  std::set<std::string> known = {"winnow_eval"};
  for (const auto& [name, value] : identity) {
    known.insert(name);
    ASSIGN_OR_RETURN(const std::string found, fields->Text(name, "missing"));
    if (found != value) return differs(name, value, found);
  }
  for (const std::string& name : fields->Names()) {
    if (known.contains(name)) continue;
    ASSIGN_OR_RETURN(const std::string found, fields->Text(name));
    return differs(name, "missing", found);
  }
  return Ok{};
}

Result<std::string> EvalJournal::ReadAll() const {
  struct stat info;
  if (fstat(fd_, &info) != 0) return SystemError("read", path_);
  if (!S_ISREG(info.st_mode)) {
    return MakeError(ErrorCode::kIo, "{}: must be a regular file", path_);
  }
  std::string content(static_cast<size_t>(info.st_size), '\0');
  size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t n =
        pread(fd_, content.data() + filled, content.size() - filled,
              static_cast<off_t>(filled));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("read", path_);
    if (n == 0) break;
    filled += static_cast<size_t>(n);
  }
  content.resize(filled);
  return content;
}

// One write a line, so that an end of the process cuts between two as a rule.
Status EvalJournal::WriteLine(const std::string& line) {
  const std::string text = line + "\n";
  if (lseek(fd_, 0, SEEK_END) < 0) return SystemError("write", path_);
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = write(fd_, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("write", path_);
    written += static_cast<size_t>(n);
  }
  return Ok{};
}

Status EvalJournal::Append(const EvalKey& key, const EvalOutcome& outcome) {
  return WriteLine(LineOf(key, outcome));
}

Status EvalJournal::Remove() {
  if (unlink(path_.c_str()) != 0) return SystemError("remove", path_);
  return Ok{};
}

}  // namespace winnow
