#include "model/weights/joined_weights.h"

#include <numeric>
#include <utility>

namespace winnow {
namespace {

// Lengthens the first dimension by `next`, which stands behind `view`.
void Lengthen(const View& next, View& view) {
  CHECK(next.contiguous() && view.contiguous() && next.dtype == view.dtype &&
            next.data == view.data + view.num_bytes(),
        "{} is not followed by {}", ToString(view), ToString(next));
  view.shape[0] += next.dim(0);
}

}  // namespace

JoinedWeights JoinedWeights::OfWidths(std::vector<int64_t> widths) {
  CHECK(!widths.empty() && widths.size() <= kMaxParts, "parts={}",
        widths.size());
  return {.products = std::vector<LinearWeights>(widths.size()),
          .widths = std::move(widths)};
}

int64_t JoinedWeights::num_outputs() const {
  return std::accumulate(widths.begin(), widths.end(), int64_t{0});
}

LinearWeights JoinedWeights::Part(size_t i) const {
  CHECK(i < widths.size(), "i={} parts={}", i, widths.size());
  if (products.size() == widths.size()) return products[i];
  int64_t first = 0;
  for (size_t before = 0; before < i; ++before) first += widths[before];
  const LinearWeights& all = products.front();
  return {.matrix = all.matrix.Rows(first, widths[i]),
          .bias = all.bias.empty() ? View{} : all.bias.Slice(first, widths[i])};
}

void JoinedWeights::Join() {
  LinearWeights& first = products.front();
  for (size_t i = 1; i < products.size(); ++i) {
    const LinearWeights& next = products[i];
    CHECK(first.bias.empty() == next.bias.empty(), "bias {} before {}",
          ToString(first.bias), ToString(next.bias));
    Lengthen(next.matrix.codes, first.matrix.codes);
    first.matrix.rows += next.matrix.rows;
    if (!next.bias.empty()) Lengthen(next.bias, first.bias);
  }
  products.resize(1);
}

LinearParts::LinearParts(const JoinedWeights& weights, const View& out) {
  int64_t first = 0;
  for (const LinearWeights& product : weights.products) {
    const int64_t width = product.matrix.rows;
    parts_[num_parts_++] = {.weight = product.matrix,
                            .bias = product.bias,
                            .out = out.Columns(first, width)};
    first += width;
  }
  CHECK(first == out.dim(1), "width={} out {}", first, ToString(out));
}

}  // namespace winnow
