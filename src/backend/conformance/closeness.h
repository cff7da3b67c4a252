// How near a backend must come to float64, in one table.
#ifndef WINNOW_BACKEND_CONFORMANCE_CLOSENESS_H_
#define WINNOW_BACKEND_CONFORMANCE_CLOSENESS_H_

#include <initializer_list>

#include "backend/conformance/test_array.h"

namespace winnow {

// What stands between the inputs and the output, before it is rounded.
enum class Arithmetic {
  kElementwise,    // a few float32 operations and functions
  kSum,            // a float32 sum of some hundred terms
  kAttention,      // float32 scores, exponentials and sums
  kAttentionBf16,  // the same with weights rounded to bfloat16
};

// Compares a backend's output with reference values. An element may be off by
// one rounding of its type, and by the arithmetic's share of `magnitude`, the
// sum of the absolute terms that it is made of. What came nearest to that bound
// in a test is among its result's properties (--gtest_output=json):
// "compared" elements, the "largest_error" by its share of the bound, its
// "tolerance" and their quotient, "error_share".
class Closeness {
 public:
  Closeness(TestArray got, Arithmetic arithmetic)
      : got_(std::move(got)), arithmetic_(arithmetic) {}
  ~Closeness();
  Closeness(const Closeness&) = delete;
  Closeness& operator=(const Closeness&) = delete;

  // Fails the test, with both values, where they are too far apart.
  void Expect(std::initializer_list<int64_t> index, double reference,
              double magnitude);

 private:
  TestArray got_;
  Arithmetic arithmetic_;
  int num_failures_ = 0;
  int64_t num_compared_ = 0;
  double largest_error_ = 0, tolerance_ = 0;  // of the greatest share
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_CLOSENESS_H_
