#include "cli/schedule_trace_file.h"

#include <cerrno>
#include <cstring>

#include "engine/schedule_trace.h"

namespace winnow {

Result<std::unique_ptr<ScheduleTraceFile>> ScheduleTraceFile::Create(
    const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    return MakeError(ErrorCode::kIo, "--scheduler-trace {}: {}", path,
                     std::strerror(errno));
  }
  return std::unique_ptr<ScheduleTraceFile>(new ScheduleTraceFile(file, path));
}

void ScheduleTraceFile::Add(const ScheduleInput& input,
                            const Schedule& schedule) {
  if (!file_) return;
  const std::string line = ScheduleLine(input, schedule) + "\n";
  const bool written =
      std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() &&
      std::fflush(file_.get()) == 0;
  if (written) return;
  std::fprintf(stderr, "winnow: warning: --scheduler-trace %s: %s\n",
               path_.c_str(), std::strerror(errno));
  file_.reset();
}

}  // namespace winnow
