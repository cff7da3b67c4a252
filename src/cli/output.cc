#include "cli/output.h"

#include <cstdio>

#include "base/file.h"

namespace winnow {

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

Status CheckJsonFile(const EngineFlags& flags) {
  return flags.json_file.empty() ? Status(Ok{})
                                 : CheckCanWrite(flags.json_file);
}

Status WriteJson(const EngineFlags& flags, std::string_view text) {
  if (!flags.json_file.empty()) return WriteFile(flags.json_file, text);
  Print(text);
  return Ok{};
}

}  // namespace winnow
