// The float32 numbers that tests of logits and scores try beside ordinary ones.
#ifndef WINNOW_BACKEND_CONFORMANCE_FLOAT_EXTREMES_H_
#define WINNOW_BACKEND_CONFORMANCE_FLOAT_EXTREMES_H_

#include <limits>

namespace winnow {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_FLOAT_EXTREMES_H_
