#include "tensor/view.h"

#include <fmt/ranges.h>

#include <span>

namespace winnow {

int64_t View::num_elements() const {
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) count *= dim(i);
  return count;
}

int64_t View::num_bytes() const { return num_elements() * DtypeBytes(dtype); }

bool View::contiguous() const {
  int64_t expected = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (dim(i) != 1 && stride[static_cast<size_t>(i)] != expected) return false;
    expected *= dim(i);
  }
  return true;
}

View View::Slice(int64_t first, int64_t count) const {
  CHECK(rank >= 1 && first >= 0 && count >= 0 && first + count <= dim(0),
        "first={} count={} of {}", first, count, ToString(*this));
  View slice = *this;
  slice.data += first * stride[0] * DtypeBytes(dtype);
  slice.shape[0] = count;
  return slice;
}

View View::Columns(int64_t first, int64_t count) const {
  CHECK(rank >= 1 && first >= 0 && count >= 0 && first + count <= dim(rank - 1),
        "first={} count={} of {}", first, count, ToString(*this));
  View columns = *this;
  if (data != nullptr) columns.data += first * DtypeBytes(dtype);
  columns.shape[static_cast<size_t>(rank - 1)] = count;
  return columns;
}

View View::SplitColumns(int64_t parts) const {
  CHECK(rank >= 1 && rank < kMaxRank && parts > 0 && dim(rank - 1) % parts == 0,
        "parts={} of {}", parts, ToString(*this));
  View split = *this;
  const auto last = static_cast<size_t>(rank - 1);
  split.shape[last] = parts;
  split.shape[last + 1] = shape[last] / parts;
  split.stride[last] = split.shape[last + 1];
  split.stride[last + 1] = 1;
  ++split.rank;
  return split;
}

View View::Reshape(std::initializer_list<int64_t> new_shape) const {
  CHECK(contiguous(), "{}", ToString(*this));
  const View reshaped = MakeView(data, dtype, new_shape);
  CHECK(reshaped.num_elements() == num_elements(), "{} to {}", ToString(*this),
        ToString(reshaped));
  return reshaped;
}

View MakeView(void* data, Dtype dtype, std::initializer_list<int64_t> shape) {
  CHECK(shape.size() <= kMaxRank, "rank={}", shape.size());
  View view;
  view.data = static_cast<std::byte*>(data);
  view.dtype = dtype;
  view.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape.begin());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    CHECK(view.shape[i] >= 0, "dim {} is {}", i, view.shape[i]);
    view.stride[i] = stride;
    stride *= view.shape[i];
  }
  return view;
}

View MakeView(const void* data, Dtype dtype,
              std::initializer_list<int64_t> shape) {
  return MakeView(const_cast<void*>(data), dtype, shape);
}

std::string ToString(const View& view) {
  return fmt::format(
      "{} [{}]", DtypeName(view.dtype),
      fmt::join(std::span(view.shape.data(), static_cast<size_t>(view.rank)),
                ", "));
}

}  // namespace winnow
