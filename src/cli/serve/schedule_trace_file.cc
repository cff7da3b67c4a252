#include "cli/serve/schedule_trace_file.h"

#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/size_text.h"
#include "engine/schedule/schedule_trace.h"

namespace winnow {

Result<std::unique_ptr<ScheduleTraceFile>> ScheduleTraceFile::Create(
    const std::string& path, int64_t max_bytes) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    return MakeError(ErrorCode::kIo, "--scheduler-trace {}: {}", path,
                     std::strerror(errno));
  }
  return std::unique_ptr<ScheduleTraceFile>(
      new ScheduleTraceFile(file, path, max_bytes));
}

void ScheduleTraceFile::Add(const Decision& decision) {
  if (!file_) return;
  const std::string line = DecisionLine(decision) + "\n";
  num_bytes_ += std::ssize(line);
  if (num_bytes_ > max_bytes_) {
    return End(
        fmt::format("ends before it is longer than {} "
                    "(--max-scheduler-trace-size)",
                    FormatBytes(max_bytes_)));
  }
  const bool written =
      std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() &&
      std::fflush(file_.get()) == 0;
  if (!written) End(std::strerror(errno));
}

void ScheduleTraceFile::End(const std::string& reason) {
  std::fprintf(stderr, "winnow: warning: --scheduler-trace %s: %s\n",
               path_.c_str(), reason.c_str());
  file_.reset();
}

}  // namespace winnow
