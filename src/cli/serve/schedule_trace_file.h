// A file that a scheduler's decisions go to as they are made.
#ifndef WINNOW_CLI_SERVE_SCHEDULE_TRACE_FILE_H_
#define WINNOW_CLI_SERVE_SCHEDULE_TRACE_FILE_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/schedule/decision.h"

namespace winnow {

// Owns the file; one thread at a time. A line is there when Add returns, so
// that a process that ends in any way leaves all but the last one whole.
class ScheduleTraceFile {
 public:
  // An empty file, whatever was there. Fails with kIo where it cannot be.
  static Result<std::unique_ptr<ScheduleTraceFile>> Create(
      const std::string& path, int64_t max_bytes);

  // Where it cannot be written, or would be longer than max_bytes, this is said
  // once, on standard error, and nothing more is written.
  void Add(const Decision& decision);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  ScheduleTraceFile(std::FILE* file, std::string path, int64_t max_bytes)
      : file_(file), path_(std::move(path)), max_bytes_(max_bytes) {}
  // `reason`: why.
  void End(const std::string& reason);

  std::unique_ptr<std::FILE, Close> file_;  // null: it has ended
  const std::string path_;
  const int64_t max_bytes_;
  int64_t num_bytes_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_CLI_SERVE_SCHEDULE_TRACE_FILE_H_
