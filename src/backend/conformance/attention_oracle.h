// Attend: attention of one row and q head in float64, and how near an Attend
// comes to it; for tests.
#ifndef WINNOW_BACKEND_CONFORMANCE_ATTENTION_ORACLE_H_
#define WINNOW_BACKEND_CONFORMANCE_ATTENTION_ORACLE_H_

#include <span>
#include <vector>

#include "backend/conformance/closeness.h"
#include "backend/conformance/paged_case.h"

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

// Compares what an Attend of K and V of a type gives with attention.
class AttentionCloseness {
 public:
  // out [rows, q_heads, v_dim], lse [rows, q_heads]
  AttentionCloseness(Dtype kv, const TestArray& out, const TestArray& lse);

  void Expect(int64_t row, int64_t head, const Attention& expected);

 private:
  Closeness out_, lse_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_ATTENTION_ORACLE_H_
