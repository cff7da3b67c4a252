// Dtypes: the element types that a model runs in.
#ifndef WINNOW_MODEL_FORWARD_DTYPES_H_
#define WINNOW_MODEL_FORWARD_DTYPES_H_

#include "base/result.h"
#include "tensor/dtype.h"

namespace winnow {

// Weights have types of their own (WeightMatrix).
struct Dtypes {
  Dtype compute = Dtype::kBFloat16;  // activations, q and attention's output
  Dtype kv = Dtype::kBFloat16;       // K and V on every tier

  friend bool operator==(const Dtypes&, const Dtypes&) = default;
};

// Fails with kUnsupported unless both are one: no op converts K and V yet.
Status CheckDtypes(const Dtypes& dtypes);

}  // namespace winnow

#endif  // WINNOW_MODEL_FORWARD_DTYPES_H_
