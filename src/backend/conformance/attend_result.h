// What an Attend on a backend under test gives, and that two gave the same.
#ifndef WINNOW_BACKEND_CONFORMANCE_ATTEND_RESULT_H_
#define WINNOW_BACKEND_CONFORMANCE_ATTEND_RESULT_H_

#include <gtest/gtest.h>

#include "backend/conformance/test_array.h"

namespace winnow {

struct AttendResult {
  TestArray out;  // [rows, q_heads, v_dim]
  TestArray lse;  // [rows, q_heads]
};

// Equal bits, but that zero has no sign.
inline void ExpectSame(const AttendResult& got, const AttendResult& expected) {
  EXPECT_TRUE(got.out.values == expected.out.values);
  EXPECT_TRUE(got.lse.values == expected.lse.values);
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_ATTEND_RESULT_H_
