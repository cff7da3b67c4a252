// GenerationRecord: the JSON line of one generation (docs/contract.md).
#ifndef WINNOW_CLI_GENERATE_GENERATE_JSON_H_
#define WINNOW_CLI_GENERATE_GENERATE_JSON_H_

#include <string>
#include <vector>

#include "engine/request/request.h"

namespace winnow {

// The values of the line. `text` is UTF-8.
struct GenerationRecord {
  std::string text;
  std::vector<GeneratedToken> tokens;
  Completion completion;
  bool with_logprobs = false;
  double load_ms = 0;
};

// One line, without its line break.
std::string ToJsonLine(const GenerationRecord& record);

}  // namespace winnow

#endif  // WINNOW_CLI_GENERATE_GENERATE_JSON_H_
