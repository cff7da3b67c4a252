#include "backend/cpu/rows/gather_rows.h"

#include <cstring>

namespace winnow {

void GatherRowsOf(const GatherRowsArgs& args, ThreadPool& pool) {
  const int64_t size = args.x.dim(1);
  CHECK(args.out.dim(0) == args.indices.dim(0) && args.out.dim(1) == size &&
            args.out.dtype == args.x.dtype,
        "x {} indices {} out {}", ToString(args.x), ToString(args.indices),
        ToString(args.out));
  const int32_t* indices = args.indices.As<int32_t>();
  const int64_t element_bytes = DtypeBytes(args.x.dtype);
  pool.ParallelRanges(
      args.indices.dim(0), 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
          CHECK(indices[row] >= 0 && indices[row] < args.x.dim(0),
                "index={} rows={}", indices[row], args.x.dim(0));
          std::memcpy(
              args.out.data + row * args.out.stride[0] * element_bytes,
              args.x.data + indices[row] * args.x.stride[0] * element_bytes,
              static_cast<size_t>(size * element_bytes));
        }
      });
}

}  // namespace winnow
