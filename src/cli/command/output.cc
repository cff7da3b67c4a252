#include "cli/command/output.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>

#include "base/file.h"

namespace winnow {

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

Status FlushOutput() {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return Ok{};
  return MakeError(ErrorCode::kIo, "standard output: not all could be written");
}

Status CheckOutputIsRead() {
  RETURN_IF_ERROR(FlushOutput());
  pollfd output = {.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  if (poll(&output, 1, /*timeout=*/0) > 0 && (output.revents & POLLERR) != 0) {
    return MakeError(ErrorCode::kIo,
                     "standard output: whoever read it has closed it");
  }
  return Ok{};
}

void PrintError(std::string_view message) {
  std::string line = "winnow: ";
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      line += fmt::format("\\u{:04x}", byte);
    } else {
      line += c;
    }
  }
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

Status CheckJsonFile(const EngineFlags& flags) {
  return flags.json_file.empty() ? Status(Ok{})
                                 : CheckCanWrite(flags.json_file);
}

Status WriteJson(const EngineFlags& flags, std::string_view text) {
  if (!flags.json_file.empty()) return WriteFile(flags.json_file, text);
  Print(text);
  return FlushOutput();
}

}  // namespace winnow
