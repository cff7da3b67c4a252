// Attend: attention of one row and q head in float64, for tests of Read.
#ifndef WINNOW_BACKEND_ATTENTION_ORACLE_H_
#define WINNOW_BACKEND_ATTENTION_ORACLE_H_

#include <span>
#include <vector>

#include "backend/paged_case.h"

namespace winnow {

struct Attention {
  std::vector<double> values, magnitudes;  // [v_dim]
  double lse = 0;
};

// Softmax attention of `query` [k_dim] over tokens of a request, of which there
// is one at least.
Attention Attend(const PagedCase& paged, size_t request, int kv_head,
                 std::span<const double> query, double scale,
                 std::span<const int64_t> tokens);

}  // namespace winnow

#endif  // WINNOW_BACKEND_ATTENTION_ORACLE_H_
