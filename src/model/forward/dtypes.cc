#include "model/forward/dtypes.h"

namespace winnow {

Status CheckDtypes(const Dtypes& dtypes) {
  if (dtypes.kv == dtypes.compute) return Ok{};
  return MakeError(ErrorCode::kUnsupported,
                   "the dtype of KV must be that of compute, {}, is {}",
                   DtypeName(dtypes.compute), DtypeName(dtypes.kv));
}

}  // namespace winnow
