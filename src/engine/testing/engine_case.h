// What tests of the engine on tiny models have in common.
#ifndef WINNOW_ENGINE_TESTING_ENGINE_CASE_H_
#define WINNOW_ENGINE_TESTING_ENGINE_CASE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "engine/request/request.h"
#include "engine/testing/engine_invariants.h"
#include "tests/golden/tiny_model.h"

namespace winnow {

// Of slots of 8 tokens, which is a quarter of a page.
inline const std::string kMeanOfSlots =
    "mean:budget=24,block=8,sink=0,recent=8";
// Its first layer is read whole.
inline const std::string kFirstWhole = kMeanOfSlots + ",dense_layers=0";

// Greedy, of a prompt that is another one for each `which`.
inline Request TinyRequest(const TinyCase& golden, int which, int num_tokens,
                           int max_tokens, int selector) {
  Request request;
  for (int i = 0; i < num_tokens; ++i) {
    request.prompt.push_back(TinyToken(golden, 5 * which, i));
  }
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.selector = selector;
  return request;
}

// A step that succeeds and leaves everything sound; whether there is more.
inline bool StepOf(Engine& engine) {
  const Result<bool> more = engine.Step();
  CHECK(more.ok(), "{}", more.error().message);
  EXPECT_EQ(BrokenInvariants(engine), std::vector<std::string>());
  return *more;
}

}  // namespace winnow

#endif  // WINNOW_ENGINE_TESTING_ENGINE_CASE_H_
