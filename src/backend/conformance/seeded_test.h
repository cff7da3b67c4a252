// SeededTest: what the conformance tests of attention share.
#ifndef WINNOW_BACKEND_CONFORMANCE_SEEDED_TEST_H_
#define WINNOW_BACKEND_CONFORMANCE_SEEDED_TEST_H_

#include "backend/conformance/backend_under_test.h"
#include "backend/conformance/test_array.h"

namespace winnow {

class SeededTest : public testing::TestWithParam<BackendUnderTest> {
 protected:
  TestDevice Device(int num_threads) {
    return TestDevice(GetParam().make(num_threads));
  }

  // Runs check(random, number of threads) on `num_rounds` seeds.
  template <typename Check>
  void ForSeeds(int num_rounds, Check&& check) {
    for (int seed = 0; seed < num_rounds && !HasFailure();
         seed += GetParam().seed_step) {
      SCOPED_TRACE(testing::Message() << "seed=" << seed);
      RandomSource random(static_cast<uint64_t>(seed));
      check(random, 1 + seed % 3);
    }
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_SEEDED_TEST_H_
