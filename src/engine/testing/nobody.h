// Nobody: an observer for tests that ask for nothing to be told.
#ifndef WINNOW_ENGINE_TESTING_NOBODY_H_
#define WINNOW_ENGINE_TESTING_NOBODY_H_

#include "engine/request/request.h"

namespace winnow {

class Nobody : public RequestObserver {
 public:
  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken&) override { return true; }
  void OnFinish(const Completion&) override {}
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_TESTING_NOBODY_H_
