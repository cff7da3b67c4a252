// JoinedWeights: the weights of products that share an input.
#ifndef WINNOW_MODEL_WEIGHTS_JOINED_WEIGHTS_H_
#define WINNOW_MODEL_WEIGHTS_JOINED_WEIGHTS_H_

#include <array>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace winnow {

struct LinearWeights {
  WeightMatrix matrix;  // [out, in]
  View bias;            // [out], or empty
};

// Q, K and V, or gate and up: parts whose outputs stand side by side. Weights
// that Winnow lays out itself are joined: one matrix has the parts' rows in
// turn. A CPU computes from mapped files, which may hold parts anywhere. There
// each part is a product of its own, as joining would copy two thirds of all
// weights.
struct JoinedWeights {
  static constexpr size_t kMaxParts = 3;

  std::vector<LinearWeights> products;  // one where joined, else one a part
  std::vector<int64_t> widths;          // outputs of each part

  // Parts of such widths without weights yet, each a product.
  static JoinedWeights OfWidths(std::vector<int64_t> widths);

  int64_t num_outputs() const;  // of all parts
  // Part i, joined or not.
  LinearWeights Part(size_t i) const;
  // Makes one product of all. REQUIRES: the parts' weights follow one another
  // in memory without gaps, and so do their biases.
  void Join();
};

// The parts of a Linear by such weights: each makes its columns of `out`.
class LinearParts {
 public:
  // `out` [rows, sum of the widths].
  LinearParts(const JoinedWeights& weights, const View& out);

  std::span<const LinearPart> all() const {
    return std::span(parts_).first(num_parts_);
  }

 private:
  std::array<LinearPart, JoinedWeights::kMaxParts> parts_;
  size_t num_parts_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_MODEL_WEIGHTS_JOINED_WEIGHTS_H_
