// Nobody: an observer for tests that ask for nothing to be told.
#ifndef WINNOW_ENGINE_TESTING_NULL_OBSERVER_H_
#define WINNOW_ENGINE_TESTING_NULL_OBSERVER_H_

#include "engine/request/request.h"

namespace winnow {

class NullObserver : public RequestObserver {
 public:
  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken&) override { return true; }
  void OnFinish(const Completion&) override {}
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_TESTING_NULL_OBSERVER_H_
