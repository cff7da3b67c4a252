// EvalJournal: keeps answers on disk, so that an interrupted evaluation can
// continue.
#ifndef WINNOW_CLI_EVAL_EVAL_JOURNAL_H_
#define WINNOW_CLI_EVAL_EVAL_JOURNAL_H_

#include <string>
#include <utility>
#include <vector>

#include "cli/eval/eval_table.h"

namespace winnow {

// The named values that identify an evaluation. A journal repeats them.
using EvalIdentity = std::vector<std::pair<std::string, std::string>>;

// Owns an open file of JSON lines: the identity, then an answer a line. One
// process has it at a time. An incomplete line, left by a process that ended,
// counts as absent.
class EvalJournal {
 public:
  // Opens or creates `path` and adds its answers to `outcomes`. Fails, without
  // a change, if the file belongs to another evaluation or is no journal.
  static Result<EvalJournal> Open(const std::string& path,
                                  const EvalIdentity& identity,
                                  EvalOutcomes* outcomes);
  EvalJournal(EvalJournal&& other) noexcept;
  EvalJournal& operator=(EvalJournal&& other) noexcept;
  ~EvalJournal();

  Status Append(const EvalKey& key, const EvalOutcome& outcome);
  // Removes the file, because its answers are stored elsewhere now.
  Status Remove();

  const std::string& path() const { return path_; }

 private:
  EvalJournal(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Result<std::string> ReadAll() const;
  Status WriteLine(const std::string& line);
  Status CheckHeader(const std::string& line,
                     const EvalIdentity& identity) const;

  std::string path_;
  int fd_ = -1;
};

}  // namespace winnow

#endif  // WINNOW_CLI_EVAL_EVAL_JOURNAL_H_
