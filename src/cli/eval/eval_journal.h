// Answers on disk as they come, so that an interrupted evaluation goes on.
#ifndef WINNOW_CLI_EVAL_EVAL_JOURNAL_H_
#define WINNOW_CLI_EVAL_EVAL_JOURNAL_H_

#include <string>
#include <utility>
#include <vector>

#include "cli/eval/eval_table.h"

namespace winnow {

// What makes an evaluation the same: named values that a journal repeats.
using EvalIdentity = std::vector<std::pair<std::string, std::string>>;

// Owns an open file of JSON lines: who it belongs to, then an answer a line.
// One process has it at a time. A line that was cut off by the end of the
// process that wrote it counts as not written.
class EvalJournal {
 public:
  // Opens `path`, or makes it, and adds the answers that it holds to
  // `outcomes`. Fails, and changes nothing, where the file is another
  // evaluation's, or none.
  static Result<EvalJournal> Open(const std::string& path,
                                  const EvalIdentity& identity,
                                  EvalOutcomes* outcomes);
  EvalJournal(EvalJournal&& other) noexcept;
  EvalJournal& operator=(EvalJournal&& other) noexcept;
  ~EvalJournal();

  Status Append(const EvalKey& key, const EvalOutcome& outcome);
  // Takes the file away: its answers are elsewhere now.
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
