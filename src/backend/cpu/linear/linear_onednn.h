// Products of matrices by oneDNN.
#ifndef WINNOW_BACKEND_CPU_LINEAR_LINEAR_ONEDNN_H_
#define WINNOW_BACKEND_CPU_LINEAR_LINEAR_ONEDNN_H_

#include <compare>
#include <map>
#include <memory>
#include <vector>

#include "tensor/buffer.h"

// oneDNN's own declarations of these: its header stays in one source file.
struct dnnl_engine;
struct dnnl_stream;
struct dnnl_primitive;
struct dnnl_memory;

namespace winnow {

// y = x W^T: what the code that oneDNN generates for it depends on.
struct ProductShape {
  Dtype dtype = Dtype::kFloat32;  // of x and W: f32, or bf16; y is f32
  int64_t num_rows = 0;           // at least 2
  int64_t num_columns = 0;        // at least 2
  int64_t num_in = 0;
  int64_t x_stride = 0;       // elements from a row of x to the next
  int64_t weight_stride = 0;  // and of W

  auto operator<=>(const ProductShape&) const = default;
};

struct DestroyOneDnn {
  void operator()(dnnl_engine* engine) const;
  void operator()(dnnl_stream* stream) const;
  void operator()(dnnl_primitive* primitive) const;
  void operator()(dnnl_memory* memory) const;
};
template <typename T>
using OneDnn = std::unique_ptr<T, DestroyOneDnn>;

// Owns generated code, and for each worker what it runs it with. Several
// workers may run one product at a time.
class OneDnnProduct {
 public:
  // y is [num_rows, num_columns], without gaps.
  void Run(int worker, const void* x, const void* weight, float* y) const;

 private:
  friend class OneDnnProducts;

  // oneDNN's handles of the operands: each worker sets its own.
  struct Worker {
    dnnl_stream* stream = nullptr;  // OneDnnProducts'
    OneDnn<dnnl_memory> x, weight, y, scratch;
  };

  OneDnn<dnnl_primitive> primitive_;
  size_t scratch_bytes_ = 0;
  const Buffer* scratch_ = nullptr;  // [workers], OneDnnProducts'
  std::vector<Worker> workers_;
};

// Inputs for which oneDNN adds a row in an order that does not depend on the
// number of rows. With more, it cuts float32 into blocks that do; with fewer,
// it multiplies a few rows of bfloat16 without AMX where it has that.
inline constexpr int64_t kMaxInvariantFloat32Inputs = 512;
inline constexpr int64_t kMinInvariantBFloat16Inputs = 32;

// Owns the products of the shapes that have been asked for. A row's bits are
// the same for every num_rows and every cut of W into columns, where num_in is
// within the bounds above. That is why neither number may be 1: oneDNN then
// takes another order.
class OneDnnProducts {
 public:
  explicit OneDnnProducts(int num_workers);

  // Generates code at a shape's first use, some 0.7 ms, and allocates nothing
  // later. Called by the backend's thread while no product runs. What it
  // returns lives as long as this. (Running a product, oneDNN takes and gives
  // back a few hundred bytes to pass the operands on.)
  const OneDnnProduct& Prepare(const ProductShape& shape);

 private:
  std::unique_ptr<OneDnnProduct> Make(const ProductShape& shape);

  OneDnn<dnnl_engine> engine_;
  std::vector<OneDnn<dnnl_stream>> streams_;  // [workers]
  std::vector<Buffer> scratch_;               // [workers]
  std::map<ProductShape, std::unique_ptr<OneDnnProduct>> products_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_LINEAR_LINEAR_ONEDNN_H_
