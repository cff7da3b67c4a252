// RequestLimits: what a request must keep within, known when the engine starts.
#ifndef WINNOW_ENGINE_REQUEST_LIMITS_H_
#define WINNOW_ENGINE_REQUEST_LIMITS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/request/request.h"
#include "engine/request/sequence.h"

namespace winnow {

// Plain data. A check fails where what is asked can never run; the error names
// the field, the limit and the value found.
struct RequestLimits {
  int vocab_size = 0;
  int max_model_len = 0;  // tokens a sequence may reach
  int num_selectors = 0;
  int64_t num_pages = 0;   // of the KV pool
  int64_t page_bytes = 0;  // over all layers
  bool scores_prompts = false;

  // That a sequence of so many tokens, with what it may generate, fits the
  // context.
  Status CheckLength(int64_t num_tokens, int64_t max_tokens) const;
  // Its fields and its length.
  Status Check(const Request& request) const;
  // That its pages fit the pool, where it has no prefix.
  Status CheckRoom(const Request& request) const;
  // That a prefix has room for itself and, beside it, for its longest request.
  Status Check(const Prefix& prefix) const;
  // That the request fits the prefix that it shares.
  // REQUIRES: the prompt begins with the prefix's tokens and is longer.
  static Status CheckFork(const Request& request, const Sequence& prefix);

 private:
  Status CheckTokens(std::string_view field,
                     const std::vector<int32_t>& tokens) const;
  Status CheckSelector(int selector) const;
  Status CheckScoring(const Request& request) const;
  Status CheckRoom(int64_t num_tokens, int64_t max_tokens,
                   int64_t num_pages_needed) const;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_REQUEST_LIMITS_H_
