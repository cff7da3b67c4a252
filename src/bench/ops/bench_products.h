// The products of a step, alone: what a step is measured against.
#ifndef WINNOW_BENCH_OPS_BENCH_PRODUCTS_H_
#define WINNOW_BENCH_OPS_BENCH_PRODUCTS_H_

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "bench/roofs/roof.h"
#include "model/forward/model.h"

namespace winnow {

// The matrices that a decoded token reads: all but the embedding's rows, which
// are read one a token. And how many bytes they are.
std::vector<Bytes> ProductWeights(const Model& model);
int64_t ProductBytes(const Model& model);

// Floating-point operations of the products for `rows` rows, of which
// `logit_rows` go through the last one.
double ProductFlops(const Model& model, int64_t rows, int64_t logit_rows);

// Owns inputs and outputs of `rows` rows. `backend` and `model` must outlive
// it.
class BenchProducts {
 public:
  static Result<BenchProducts> Create(Backend& backend, const Model& model,
                                      int64_t rows);

  // All layers' products of the rows, one after another, nothing between.
  void Run();
  double flops() const { return ProductFlops(*model_, rows_, 0); }

 private:
  BenchProducts(Backend& backend, const Model& model, int64_t rows)
      : backend_(&backend),
        model_(&model),
        rows_(rows),
        queue_(backend.MakeQueue()) {}
  size_t RowsBytes(int64_t num_columns) const;

  Backend* backend_;
  const Model* model_;
  int64_t rows_;
  std::unique_ptr<Queue> queue_;
  Buffer in_, out_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_PRODUCTS_H_
