// BenchProducts: the products of a step alone, with which a step is compared.
#ifndef WINNOW_BENCH_OPS_BENCH_PRODUCTS_H_
#define WINNOW_BENCH_OPS_BENCH_PRODUCTS_H_

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "bench/roofs/roof.h"
#include "model/forward/model.h"

namespace winnow {

// The matrices that a decoded token reads, and their bytes. All weights but the
// embedding, of which a token reads one row.
std::vector<Bytes> ProductWeights(const Model& model);
int64_t ProductBytes(const Model& model);

// Flops of the products for `rows` rows, of which `logit_rows` go through the
// last one.
double ProductFlops(const Model& model, int64_t rows, int64_t logit_rows);

// Owns inputs and outputs of `rows` rows. REQUIRES: `backend` and `model`
// outlive it.
class BenchProducts {
 public:
  static Result<BenchProducts> Create(Backend& backend, const Model& model,
                                      int64_t rows);

  // Runs all layers' products of the rows, one after another.
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
