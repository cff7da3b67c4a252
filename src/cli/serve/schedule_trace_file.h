// ScheduleTraceFile: a file of scheduler decisions, written as they are made.
#ifndef WINNOW_CLI_SERVE_SCHEDULE_TRACE_FILE_H_
#define WINNOW_CLI_SERVE_SCHEDULE_TRACE_FILE_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/schedule/decision.h"

namespace winnow {

// Owns the file; one thread at a time. Add returns after the line is written,
// so a process that ends in any way leaves all lines but the last whole.
class ScheduleTraceFile {
 public:
  // Creates or empties the file. Fails with kIo if that is impossible.
  static Result<std::unique_ptr<ScheduleTraceFile>> Create(
      const std::string& path, int64_t max_bytes);

  // If a write fails or would exceed max_bytes, says so once on standard error
  // and stops writing.
  void Add(const Decision& decision);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  ScheduleTraceFile(std::FILE* file, std::string path, int64_t max_bytes)
      : file_(file), path_(std::move(path)), max_bytes_(max_bytes) {}
  // `reason`: for the message.
  void End(const std::string& reason);

  std::unique_ptr<std::FILE, Close> file_;  // null: writing has stopped
  const std::string path_;
  const int64_t max_bytes_;
  int64_t num_bytes_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_CLI_SERVE_SCHEDULE_TRACE_FILE_H_
