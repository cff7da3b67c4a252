// The products of a step, alone: what a step is measured against.
#ifndef WINNOW_CLI_BENCH_PRODUCTS_H_
#define WINNOW_CLI_BENCH_PRODUCTS_H_

#include "backend/backend.h"
#include "model/model.h"

namespace winnow {

// Bytes of the matrices that a decoded token reads: all but the embedding's
// rows, which are read one a token.
int64_t ProductBytes(const Model& model);

// Floating-point operations of the products for `rows` rows, of which
// `logit_rows` go through the last one.
double ProductFlops(const Model& model, int64_t rows, int64_t logit_rows);

// Seconds that the backend takes for all layers' products of `rows` rows,
// nothing else between them: the median of several runs.
Result<double> ProductSeconds(Backend& backend, const Model& model,
                              int64_t rows);

}  // namespace winnow

#endif  // WINNOW_CLI_BENCH_PRODUCTS_H_
