// CublasLt: the products of NVIDIA's library, opened at run time.
#ifndef WINNOW_BACKEND_CUDA_LINEAR_CUBLASLT_H_
#define WINNOW_BACKEND_CUDA_LINEAR_CUBLASLT_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "backend/cuda/runtime/cuda_queue.h"
#include "base/result.h"

namespace winnow {

// What one product is, but for its addresses: out = beta out + alpha x W^T (+
// bias), all row-major with rows of the given strides, in elements.
struct CublasLtShape {
  int64_t rows = 0;    // of x and out
  int64_t inputs = 0;  // columns of x and of W
  int64_t outputs = 0;
  int64_t x_stride = 0, weight_stride = 0, out_stride = 0;
  Dtype dtype = Dtype::kBFloat16;  // of x and W
  Dtype out_dtype = Dtype::kBFloat16;
  bool adds_bias = false;  // [outputs] of out_dtype
  bool batch_invariant = false;

  friend auto operator<=>(const CublasLtShape&, const CublasLtShape&) = default;
};

struct CublasLtOperands {
  const void* x = nullptr;       // [rows, inputs]
  const void* weight = nullptr;  // [outputs, inputs]
  const void* bias = nullptr;    // [outputs], where the shape says so
  const void* addend = nullptr;  // as out, which it may be; null: none
  void* out = nullptr;           // [rows, outputs]
  float alpha = 1.0f;
};

// Owns the library's handle, and for every shape met so far the algorithm that
// the library proposes. Used by the backend's thread alone.
class CublasLt {
 public:
  // Fails with kUnsupported where the library is not to be found.
  static Result<std::unique_ptr<CublasLt>> Open();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // Enqueues the product; false where the library has no algorithm for it.
  // With batch_invariant one algorithm serves every number of rows, so that a
  // row is summed in the same order in any company.
  bool Enqueue(CudaQueue& queue, const CublasLtShape& shape,
               const CublasLtOperands& operands);

 private:
  struct Library;  // the functions that are called
  struct Matmul;   // descriptors and the algorithm of a shape
  explicit CublasLt(std::unique_ptr<Library> library);
  const Matmul* Find(const CublasLtShape& shape);
  // No value where there is none.
  std::optional<Matmul> Plan(const CublasLtShape& shape);

  std::unique_ptr<Library> library_;
  std::map<CublasLtShape, std::unique_ptr<Matmul>> matmuls_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_LINEAR_CUBLASLT_H_
