// View: a typed window on bytes that another object owns.
#ifndef WINNOW_TENSOR_VIEW_H_
#define WINNOW_TENSOR_VIEW_H_

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "tensor/dtype.h"

namespace winnow {

inline constexpr int kMaxRank = 4;

// Pointer, element type, shape and strides (in elements). Plain data: copied
// freely, passed to kernels by value, never longer-lived than its Buffer. The
// last dimension is always contiguous. A default View is empty: the argument
// that an op does without. Weights are Views too; their pages are mapped
// read-only, so a stray write faults at once.
struct View {
  std::byte* data = nullptr;
  Dtype dtype = Dtype::kFloat32;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape = {};
  std::array<int64_t, kMaxRank> stride = {};  // in elements

  bool empty() const { return data == nullptr; }
  int64_t dim(int i) const {
    DCHECK(i < rank, "i={} rank={}", i, rank);
    return shape[static_cast<size_t>(i)];
  }
  int64_t num_elements() const;
  int64_t num_bytes() const;  // of its elements, without gaps between rows
  // True if elements stand without gaps in row-major order.
  bool contiguous() const;

  // The first element. REQUIRES: T is the element type.
  template <typename T>
  T* As() const {
    CHECK(kDtypeOf<T> == dtype, "view is {}, asked for {}", DtypeName(dtype),
          DtypeName(kDtypeOf<T>));
    return reinterpret_cast<T*>(data);
  }
  // Entry i of the first dimension, as a pointer.
  template <typename T>
  T* Row(int64_t i) const {
    return As<T>() + i * stride[0];
  }

  // Entries [first, first + count) of the first dimension.
  View Slice(int64_t first, int64_t count) const;
  // Columns [first, first + count) of the last dimension, rows apart as before.
  View Columns(int64_t first, int64_t count) const;
  // The last dimension as `parts` of equal size: [rows, parts, size].
  View SplitColumns(int64_t parts) const;
  // The same elements in another shape. REQUIRES: contiguous, same number.
  View Reshape(std::initializer_list<int64_t> new_shape) const;
};

// A contiguous row-major View of `shape` over `data`.
View MakeView(void* data, Dtype dtype, std::initializer_list<int64_t> shape);
// A read-only one: const is cast away because ops take one kind of View.
View MakeView(const void* data, Dtype dtype,
              std::initializer_list<int64_t> shape);

// "bfloat16 [3, 4]": for messages.
std::string ToString(const View& view);

}  // namespace winnow

#endif  // WINNOW_TENSOR_VIEW_H_
