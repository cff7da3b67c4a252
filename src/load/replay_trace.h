// A recorded load: when requests came to a server, and how long they were.
#ifndef WINNOW_LOAD_REPLAY_TRACE_H_
#define WINNOW_LOAD_REPLAY_TRACE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace winnow {

// Tokens of a prompt that one hash stands for.
inline constexpr int kTraceBlockTokens = 512;

struct TracedRequest {
  double due_ms = 0;  // from the first request's time
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  // Of each kTraceBlockTokens of the prompt, the last one's may be fewer: the
  // same number, the same text. Empty: the prompt shares nothing.
  std::vector<int64_t> hash_ids;
};

// Reads JSON lines as the traces of Mooncake have them (Qin et al., "Mooncake",
// FAST 2025): {"timestamp": milliseconds, "input_length": tokens,
// "output_length": tokens, "hash_ids": [...]}, the last not necessarily. Other
// fields are ignored, and blank lines. In the order of their times. `path`
// begins all messages; fails with "PATH:LINE: field NAME: must be ..., is ...".
Result<std::vector<TracedRequest>> ReadTrace(std::string_view text,
                                             const std::string& path);

}  // namespace winnow

#endif  // WINNOW_LOAD_REPLAY_TRACE_H_
