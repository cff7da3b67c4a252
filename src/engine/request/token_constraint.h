// TokenConstraint: what holds a request's answer to a grammar.
#ifndef WINNOW_ENGINE_REQUEST_TOKEN_CONSTRAINT_H_
#define WINNOW_ENGINE_REQUEST_TOKEN_CONSTRAINT_H_

#include <cstdint>
#include <span>

#include "base/result.h"

namespace winnow {

// Where one text stands: which tokens may come next, given those that came. The
// engine asks before each draw, tells each token that was drawn, and ends the
// request where nothing may follow. It lies on the host, so a request that
// is preempted and comes back goes on with it. Called on the engine's thread.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Sets bit i % 32 of word i / 32 where token i may come next. Fails, with
  // all bits 0, where none may: the request ends with this error.
  virtual Status Mask(std::span<uint32_t> words) = 0;
  // The token comes next. One that may not is what the next Mask fails with.
  virtual void Accept(int32_t token_id) = 0;
  // Nothing may follow what came.
  virtual bool complete() const = 0;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_REQUEST_TOKEN_CONSTRAINT_H_
