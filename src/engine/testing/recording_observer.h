// RecordingObserver: an observer for tests that compare answers bit by bit.
#ifndef WINNOW_ENGINE_TESTING_RECORDING_OBSERVER_H_
#define WINNOW_ENGINE_TESTING_RECORDING_OBSERVER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/request/request.h"

namespace winnow {

class RecordingObserver : public RequestObserver {
 public:
  void OnPrefill(int done, int) override { num_read = done; }
  bool OnToken(const GeneratedToken& token) override {
    bits.emplace_back(token.token_id, token.logprob);
    return true;
  }
  void OnFinish(const Completion& given) override {
    finished = true;
    completion = given;
  }

  std::vector<std::pair<int32_t, float>> bits;
  Completion completion;
  int num_read = 0;  // tokens of its prompt
  bool finished = false;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_TESTING_RECORDING_OBSERVER_H_
