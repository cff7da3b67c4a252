// The element types that activations, weights and KV may have, as C++ types.
#ifndef WINNOW_BACKEND_CPU_ISA_FLOAT_TYPES_H_
#define WINNOW_BACKEND_CPU_ISA_FLOAT_TYPES_H_

#include "base/check.h"
#include "tensor/dtype.h"

namespace winnow {

// Calls fn(T()) with the C++ type of a float dtype and returns what it
// returns. REQUIRES: float32, bfloat16 or float16.
template <typename Fn>
decltype(auto) WithFloatType(Dtype dtype, Fn&& fn) {
  switch (dtype) {
    case Dtype::kFloat32:
      return fn(float());
    case Dtype::kBFloat16:
      return fn(BFloat16());
    case Dtype::kFloat16:
      return fn(Float16());
    default:
      CHECK(false, "dtype={}, must be float32, bfloat16 or float16",
            DtypeName(dtype));
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_FLOAT_TYPES_H_
