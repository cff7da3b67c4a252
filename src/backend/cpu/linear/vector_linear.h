// VectorLinear: Linear by vector instructions.
#ifndef WINNOW_BACKEND_CPU_LINEAR_VECTOR_LINEAR_H_
#define WINNOW_BACKEND_CPU_LINEAR_VECTOR_LINEAR_H_

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/isa/cpu_kernels.h"
#include "backend/cpu/isa/vector_kernels.h"
#include "backend/cpu/linear/linear_few_rows.h"
#include "backend/cpu/linear/linear_onednn.h"
#include "base/thread_pool.h"

namespace winnow {

// Owns the library's generated code and the memory that a product works in,
// which grows at a shape's first use and never later. Borrows the pool. Called
// by the backend's thread.
//
// A product is cut into blocks of rows by slices of columns, and these by the
// shape alone, so the number of threads never changes a bit. Up to 16 rows of
// 16-bit numbers (of bfloat16 6 beside AMX; 32 where AVX2 is the best that
// there is) go to our own kernel where the CPU has one, all others to oneDNN;
// where the product must be batch-invariant all go to oneDNN, a single row as
// one of two, because the two ways add in different orders.
//
// oneDNN takes bfloat16 as stored where the CPU multiplies it and there are
// inputs enough. Otherwise, and for float16, x and W are widened to float32, W
// slice by slice. Float32 goes in chunks of the inputs, within which the order
// is the same for any number of rows; the chunks' sums are added here.
class VectorLinear {
 public:
  // REQUIRES: this CPU runs `kernels`, which is not kScalar.
  VectorLinear(CpuKernels kernels, ThreadPool& pool);

  // The op.
  void Linear(const LinearArgs& args);

 private:
  // A part, and the library's products for a block, a slice and a chunk of the
  // inputs, by whether these are the last ones.
  struct PartPlan {
    const LinearPart* part = nullptr;
    int64_t num_slices = 0;
    int64_t slice_columns = 0;
    // [last block][last slice][last chunk]
    const OneDnnProduct* products[2][2][2] = {};
  };
  // What all items of one product share.
  struct BlockJob {
    const LinearArgs& args;
    const std::byte* x = nullptr;  // [rows, in], of the product's dtype
    Dtype dtype = Dtype::kFloat32;
    int64_t num_blocks = 0;
    int64_t last_block_rows = 0;  // as the library computes them
    int64_t chunk_in = 0;         // inputs that the library sums in one go
    int64_t num_chunks = 0;
  };

  // One block and slice, in the product's dtype.
  struct SliceOperands {
    const std::byte* x = nullptr;       // [block rows, in]
    const std::byte* weight = nullptr;  // [columns, in]
    int64_t num_elements = 0;           // of the sums
    float* sums = nullptr;              // [block rows, columns]
    float* more_sums = nullptr;         // scratch of the same shape
  };

  bool TakesFewRows(const LinearArgs& args) const;
  // REQUIRES: not float32.
  const FewRowsKernels& FewRowsOf(Dtype dtype) const;
  void RunFewRows(const LinearArgs& args);
  void RunBlocks(const LinearArgs& args);
  // The rows as the library reads them: in place, or a copy in x_ with room
  // for the rows that fill the last block.
  const std::byte* PlaceRows(const BlockJob& job);
  PartPlan Plan(const BlockJob& job, const LinearPart& part);
  void RunItem(const BlockJob& job, int64_t item, int worker);
  void RunSlice(const BlockJob& job, const PartPlan& plan, int64_t item,
                int worker);
  // sums = x W^T over all chunks, in ascending order.
  void SumChunks(const BlockJob& job, const SliceOperands& operands,
                 const OneDnnProduct* const (&products)[2], int worker);
  void Widen(const View& from, int64_t row, float* to) const;

  const CpuKernels kernels_;
  ThreadPool& pool_;
  // Null where the set has none.
  const FewRowsKernels few_rows_bfloat16_, few_rows_float16_;
  const WidenKernel widen_bfloat16_, widen_float16_;
  OneDnnProducts products_;
  std::vector<PartPlan> plans_;
  Buffer x_;
  std::vector<Buffer> tiles_;  // [workers]: f32 sums of a block and slice, two
  std::vector<Buffer> weights_;  // [workers]: f32 [slice columns, in]
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_LINEAR_VECTOR_LINEAR_H_
