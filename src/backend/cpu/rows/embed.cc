#include "backend/cpu/rows/embed.h"

#include <algorithm>

#include "backend/cpu/isa/float_types.h"

namespace winnow {

void EmbedRows(const EmbedArgs& args, ThreadPool& pool) {
  const int64_t num_rows = args.token_ids.dim(0);
  const int64_t hidden = args.table.dim(1);
  CHECK(args.out.dim(0) == num_rows && args.out.dim(1) == hidden,
        "token_ids {} table {} out {}", ToString(args.token_ids),
        ToString(args.table), ToString(args.out));
  const int32_t* token_ids = args.token_ids.As<int32_t>();
  WithFloatType(args.table.dtype, [&](auto element) {
    using T = decltype(element);
    pool.ParallelRanges(num_rows, 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const int32_t token_id = token_ids[row];
        CHECK(token_id >= -1 && token_id < args.table.dim(0),
              "token_id={} vocab={}", token_id, args.table.dim(0));
        float* out = args.out.Row<float>(row);
        if (token_id < 0) {
          std::fill_n(out, hidden, 0.0f);
          continue;
        }
        const T* from = args.table.Row<T>(token_id);
        for (int64_t i = 0; i < hidden; ++i) {
          out[i] = args.scale * static_cast<float>(from[i]);
        }
      }
    });
  });
}

}  // namespace winnow
