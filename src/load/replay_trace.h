// ReadTrace: a recorded load, with the times and lengths of its requests.
#ifndef WINNOW_LOAD_REPLAY_TRACE_H_
#define WINNOW_LOAD_REPLAY_TRACE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace winnow {

// Prompt tokens for each hash.
inline constexpr int kTraceBlockTokens = 512;

struct TracedRequest {
  double due_ms = 0;  // from the first request's time
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  // One hash for each kTraceBlockTokens of the prompt; the last block may be
  // shorter. Equal numbers stand for equal text. Empty: the prompt shares
  // nothing.
  std::vector<int64_t> hash_ids;
};

// Reads the JSON lines of Mooncake's traces (Qin et al., "Mooncake", FAST
// 2025): {"timestamp": milliseconds, "input_length": tokens, "output_length":
// tokens, "hash_ids": [...]}. hash_ids is optional. Ignores other fields and
// blank lines. Returns requests in the order of their times. `path` begins all
// messages; fails with "PATH:LINE: field NAME: must be ..., is ...".
Result<std::vector<TracedRequest>> ReadTrace(std::string_view text,
                                             const std::string& path);

}  // namespace winnow

#endif  // WINNOW_LOAD_REPLAY_TRACE_H_
