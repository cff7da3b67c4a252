#include "backend/cpu/linear/vector_linear.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/grown_buffer.h"
#include "backend/cpu/isa/float_types.h"
#include "backend/cpu/linear/linear.h"
#include "backend/cpu/linear/linear_few_rows.h"
#include "backend/cpu/linear/linear_tile.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

// Rows of a block, columns of a slice. Measured on Zen 4 (bf16, 2048 inputs):
// 256 rows run at 216 GFLOP/s, 128 at 206, 512 at 214; slices of 64 to 512
// columns differ by 2 %. So small slices, for many threads; a block's sums fit
// the second-level cache.
constexpr int64_t kBlockRows = 256;
constexpr int64_t kSliceColumns = 128;
constexpr int64_t kNarrowSliceColumns = 64;  // where there are few columns
constexpr int64_t kFewColumns = 1024;
constexpr int64_t kTileElements = kBlockRows * (kSliceColumns + 1);
// Rows up to which our own kernel is the faster one, in groups: 155 GFLOP/s
// against 125 at 16 rows. Against AMX it wins 25 GB/s to 16 at 4 rows and loses
// 14 to 15 at 8. By AVX2, where the library is given widened weights, it
// is the faster one at 32 rows and as fast at 48 (Zen 3; no record is kept);
// beside a library that has AVX-512 still at 16, of float16 on a Xeon
// (record 2026-11-26-7ee4bd3-float16-in-turn.json).
constexpr int64_t kMaxGroupedRows = 2 * kMaxFewRows;
constexpr int64_t kMaxGroupedRowsAmx = 6;
constexpr int64_t kMaxGroupedRowsAvx2 = 32;
constexpr int64_t kCopiedRows = 8;  // rows of x that a worker takes at a time

// The number of rows that the library computes for `num_rows`: few distinct
// ones, because each has code of its own, and never 1.
int64_t RoundUpRows(int64_t num_rows) {
  if (num_rows <= 2) return 2;
  if (num_rows <= 4) return 4;
  const int64_t step = num_rows <= 64 ? 8 : 32;
  return (num_rows + step - 1) / step * step;
}

// Slices are never one column wide, but for a part that has no other: the
// last one may be one wider.
int64_t NumSlices(int64_t num_columns, int64_t slice_columns) {
  return std::max<int64_t>(1,
                           (num_columns + slice_columns - 2) / slice_columns);
}

int64_t ColumnsOfSlice(const LinearPart& part, int64_t slice,
                       int64_t num_slices, int64_t slice_columns) {
  if (slice + 1 < num_slices) return slice_columns;
  return part.weight.rows - slice * slice_columns;
}

WidenKernel BFloat16Widener(CpuKernels kernels) {
  if (kernels >= CpuKernels::kAvx512)
    return Avx512VectorKernels().widen_bfloat16;
  if (kernels >= CpuKernels::kAvx2) return Avx2VectorKernels().widen_bfloat16;
  return PortableVectorKernels().widen_bfloat16;
}

WidenKernel Float16Widener(CpuKernels kernels) {
  if (kernels >= CpuKernels::kAvx512)
    return Avx512VectorKernels().widen_float16;
  if (kernels >= CpuKernels::kAvx2) return Avx2VectorKernels().widen_float16;
  return PortableVectorKernels().widen_float16;
}

FewRowsKernels BFloat16FewRows(CpuKernels kernels) {
  if (kernels >= CpuKernels::kAvx512Bf16) return Avx512Bf16FewRows();
  if (kernels >= CpuKernels::kAvx2) return Avx2FewRows();
  return {};
}

FewRowsKernels Float16FewRows(CpuKernels kernels) {
  return kernels >= CpuKernels::kAvx2 ? Avx2Float16FewRows() : FewRowsKernels{};
}

const std::byte* RowData(const View& view, int64_t row) {
  return view.data + row * view.stride[0] * DtypeBytes(view.dtype);
}

}  // namespace

VectorLinear::VectorLinear(CpuKernels kernels, ThreadPool& pool)
    : kernels_(kernels),
      pool_(pool),
      few_rows_bfloat16_(BFloat16FewRows(kernels)),
      few_rows_float16_(Float16FewRows(kernels)),
      widen_bfloat16_(BFloat16Widener(kernels)),
      widen_float16_(Float16Widener(kernels)),
      products_(pool.num_workers()),
      tiles_(static_cast<size_t>(pool.num_workers())),
      weights_(static_cast<size_t>(pool.num_workers())) {
  for (Buffer& tile : tiles_) {
    Grow(2 * kTileElements * sizeof(float), tile);
  }
}

void VectorLinear::Linear(const LinearArgs& args) {
  CheckLinear(args);
  if (args.x.dim(0) == 0) return;
  if (args.x.dim(1) == 0) {
    LinearScalar(args, pool_);
  } else if (TakesFewRows(args)) {
    RunFewRows(args);
  } else {
    RunBlocks(args);
  }
}

bool VectorLinear::TakesFewRows(const LinearArgs& args) const {
  if (args.x.dtype == Dtype::kFloat32 || args.batch_invariant ||
      FewRowsOf(args.x.dtype).multiply == nullptr) {
    return false;
  }
  int64_t max_rows = kMaxGroupedRows;
  if (kernels_ < CpuKernels::kAvx512) {
    max_rows = kMaxGroupedRowsAvx2;
  } else if (kernels_ == CpuKernels::kAmx && args.x.dtype == Dtype::kBFloat16) {
    max_rows = kMaxGroupedRowsAmx;
  }
  return args.x.dim(0) <= max_rows;
}

const FewRowsKernels& VectorLinear::FewRowsOf(Dtype dtype) const {
  return dtype == Dtype::kBFloat16 ? few_rows_bfloat16_ : few_rows_float16_;
}

void VectorLinear::RunFewRows(const LinearArgs& args) {
  const int64_t num_rows = args.x.dim(0), num_in = args.x.dim(1);
  // Groups of rows that the kernel takes at a time, each interleaved on its
  // own. The second one reads a slice's weights from the cache.
  Grow(static_cast<size_t>(InterleavedBytes(num_rows, num_in)), x_);
  const FewRowsKernels& kernels = FewRowsOf(args.x.dtype);
  const int64_t max_rows = kernels.max_rows;
  const auto for_groups = [&](auto&& fn) {
    for (int64_t row = 0; row < num_rows; row += max_rows) {
      fn(row, static_cast<int>(std::min(max_rows, num_rows - row)),
         x_.data() + InterleavedBytes(row, num_in));
    }
  };
  for_groups([&](int64_t row, int count, std::byte* to) {
    kernels.interleave({count, num_in,
                        reinterpret_cast<const uint16_t*>(RowData(args.x, row)),
                        args.x.stride[0], to});
  });
  const auto slices_of = [](const LinearPart& part) {
    return (part.weight.rows + kFewRowsColumns - 1) / kFewRowsColumns;
  };
  int64_t num_items = 0;
  for (const LinearPart& part : args.parts) num_items += slices_of(part);
  pool_.ParallelFor(num_items, [&](int64_t item, int) {
    const LinearPart* part = args.parts.data();
    for (; item >= slices_of(*part); ++part) item -= slices_of(*part);
    const int64_t column = item * kFewRowsColumns;
    const int64_t num_columns =
        std::min<int64_t>(kFewRowsColumns, part->weight.rows - column);
    for_groups([&](int64_t row, int count, const std::byte* from) {
      float sums[kMaxFewRows * kFewRowsColumns];
      kernels.multiply({count, num_in, from,
                        reinterpret_cast<const uint16_t*>(
                            RowData(part->weight.codes, column)),
                        part->weight.codes.stride[0], num_columns, sums});
      FinishTile({args, *part, row, count, column, num_columns, sums,
                  kFewRowsColumns});
    });
  });
}

void VectorLinear::RunBlocks(const LinearArgs& args) {
  const int64_t num_rows = args.x.dim(0);
  BlockJob job{.args = args};
  const bool as_stored = args.x.dtype == Dtype::kBFloat16 &&
                         kernels_ >= CpuKernels::kAvx512Bf16 &&
                         args.x.dim(1) >= kMinInvariantBFloat16Inputs;
  job.dtype = as_stored ? Dtype::kBFloat16 : Dtype::kFloat32;
  job.num_blocks = (num_rows + kBlockRows - 1) / kBlockRows;
  job.last_block_rows =
      RoundUpRows(num_rows - (job.num_blocks - 1) * kBlockRows);
  const int64_t num_in = args.x.dim(1);
  job.chunk_in =
      as_stored ? num_in : std::min(num_in, kMaxInvariantFloat32Inputs);
  job.num_chunks = (num_in + job.chunk_in - 1) / job.chunk_in;
  job.x = PlaceRows(job);
  plans_.clear();
  int64_t num_items = 0;
  for (const LinearPart& part : args.parts) {
    plans_.push_back(Plan(job, part));
    num_items += plans_.back().num_slices * job.num_blocks;
  }
  pool_.ParallelFor(
      num_items, [&](int64_t item, int worker) { RunItem(job, item, worker); });
}

const std::byte* VectorLinear::PlaceRows(const BlockJob& job) {
  const View& x = job.args.x;
  const int64_t num_rows = x.dim(0), num_in = x.dim(1);
  const int64_t room = (job.num_blocks - 1) * kBlockRows + job.last_block_rows;
  if (x.dtype == job.dtype && room == num_rows && x.stride[0] == num_in) {
    return x.data;
  }
  const auto row_bytes = static_cast<size_t>(num_in * DtypeBytes(job.dtype));
  Grow(static_cast<size_t>(room) * row_bytes, x_);
  pool_.ParallelRanges(
      num_rows, kCopiedRows, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
          std::byte* to = x_.data() + static_cast<size_t>(row) * row_bytes;
          if (x.dtype == job.dtype) {
            std::memcpy(to, RowData(x, row), row_bytes);
          } else {
            Widen(x, row, reinterpret_cast<float*>(to));
          }
        }
      });
  return x_.data();
}

VectorLinear::PartPlan VectorLinear::Plan(const BlockJob& job,
                                          const LinearPart& part) {
  const int64_t num_columns = part.weight.rows, num_in = part.weight.columns;
  PartPlan plan;
  plan.part = &part;
  plan.slice_columns =
      num_columns < kFewColumns ? kNarrowSliceColumns : kSliceColumns;
  plan.num_slices = NumSlices(num_columns, plan.slice_columns);
  if (num_columns <= 1) return plan;
  const bool widened = part.weight.codes.dtype != job.dtype;
  const auto prepare = [&](bool last_block, bool last_slice, bool last_chunk) {
    const int64_t slice = last_slice ? plan.num_slices - 1 : 0;
    const int64_t chunk = last_chunk ? job.num_chunks - 1 : 0;
    plan.products[last_block][last_slice][last_chunk] = &products_.Prepare(
        {.dtype = job.dtype,
         .num_rows = last_block ? job.last_block_rows : kBlockRows,
         .num_columns =
             ColumnsOfSlice(part, slice, plan.num_slices, plan.slice_columns),
         .num_in = std::min(job.chunk_in, num_in - chunk * job.chunk_in),
         .x_stride = num_in,
         .weight_stride = widened ? num_in : part.weight.codes.stride[0]});
  };
  for (int last = 0; last < 8; ++last) {
    const bool last_block = last & 1, last_slice = last & 2,
               last_chunk = last & 4;
    if ((last_block || job.num_blocks > 1) &&
        (last_slice || plan.num_slices > 1) &&
        (last_chunk || job.num_chunks > 1)) {
      prepare(last_block, last_slice, last_chunk);
    }
  }
  if (widened) {
    const int64_t elements = (plan.slice_columns + 1) * num_in;
    for (Buffer& weights : weights_) {
      Grow(static_cast<size_t>(elements) * sizeof(float), weights);
    }
  }
  return plan;
}

void VectorLinear::RunItem(const BlockJob& job, int64_t item, int worker) {
  const PartPlan* plan = plans_.data();
  for (;; ++plan) {
    const int64_t num_items = plan->num_slices * job.num_blocks;
    if (item < num_items) break;
    item -= num_items;
  }
  const LinearPart& part = *plan->part;
  if (part.weight.rows > 1) {
    RunSlice(job, *plan, item, worker);
  } else if (part.weight.rows == 1 && item == 0) {
    LinearColumn(job.args, part, 0);
  }
}

// Blocks of a slice follow one another, so that its weights stay in a cache.
void VectorLinear::RunSlice(const BlockJob& job, const PartPlan& plan,
                            int64_t item, int worker) {
  const int64_t slice = item / job.num_blocks, block = item % job.num_blocks;
  const bool last_slice = slice + 1 == plan.num_slices;
  const bool last_block = block + 1 == job.num_blocks;
  const View& weight = plan.part->weight.codes;
  const int64_t num_in = weight.dim(1);
  const int64_t first_row = block * kBlockRows;
  const int64_t column = slice * plan.slice_columns;
  const int64_t num_columns =
      ColumnsOfSlice(*plan.part, slice, plan.num_slices, plan.slice_columns);

  const auto index = static_cast<size_t>(worker);
  const std::byte* weights = RowData(weight, column);
  if (weight.dtype != job.dtype) {
    auto* to = reinterpret_cast<float*>(weights_[index].data());
    for (int64_t i = 0; i < num_columns; ++i) {
      Widen(weight, column + i, to + i * num_in);
    }
    weights = weights_[index].data();
  }
  auto* const sums = reinterpret_cast<float*>(tiles_[index].data());
  const int64_t block_rows = last_block ? job.last_block_rows : kBlockRows;
  SumChunks(job,
            {.x = job.x + first_row * num_in * DtypeBytes(job.dtype),
             .weight = weights,
             .num_elements = block_rows * num_columns,
             .sums = sums,
             .more_sums = sums + kTileElements},
            plan.products[last_block][last_slice], worker);
  FinishTile({job.args, *plan.part, first_row,
              std::min(kBlockRows, job.args.x.dim(0) - first_row), column,
              num_columns, sums, num_columns});
}

void VectorLinear::SumChunks(const BlockJob& job, const SliceOperands& operands,
                             const OneDnnProduct* const (&products)[2],
                             int worker) {
  float* const sums = operands.sums;
  const float* const more = operands.more_sums;
  for (int64_t chunk = 0; chunk < job.num_chunks; ++chunk) {
    const int64_t skipped = chunk * job.chunk_in * DtypeBytes(job.dtype);
    products[chunk + 1 == job.num_chunks]->Run(
        worker, operands.x + skipped, operands.weight + skipped,
        chunk == 0 ? sums : operands.more_sums);
    if (chunk == 0) continue;
    for (int64_t i = 0; i < operands.num_elements; ++i) sums[i] += more[i];
  }
}

void VectorLinear::Widen(const View& from, int64_t row, float* to) const {
  constexpr int64_t kKernelStep = 16;
  const int64_t num_in = from.dim(1);
  const int64_t whole = num_in / kKernelStep * kKernelStep;
  const bool is_bfloat16 = from.dtype == Dtype::kBFloat16;
  const auto* words = reinterpret_cast<const uint16_t*>(RowData(from, row));
  (is_bfloat16 ? widen_bfloat16_ : widen_float16_)(words, whole, to);
  for (int64_t i = whole; i < num_in; ++i) {
    to[i] = is_bfloat16 ? static_cast<float>(from.Row<BFloat16>(row)[i])
                        : static_cast<float>(from.Row<Float16>(row)[i]);
  }
}

}  // namespace winnow
