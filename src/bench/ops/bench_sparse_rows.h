// AddSparseRows: the costs of selectors, as rows of winnow bench ops.
#ifndef WINNOW_BENCH_OPS_BENCH_SPARSE_ROWS_H_
#define WINNOW_BENCH_OPS_BENCH_SPARSE_ROWS_H_

#include <functional>
#include <nlohmann/json.hpp>

#include "bench/ops/bench_sparse.h"

namespace winnow {

// Each function measures anew, on `pool`'s workers.
struct RoofSources {
  ThreadPool& pool;
  std::function<double()> read_gb_per_second;
  std::function<double()> product_gflops;
};

// Adds rows of usual selectors. ClusterKeys is a share of the product roof.
// Select and Attend are shares of the read roof, and of a plain read of the
// same bytes in another layer, in turn. The sum of a decode step's ops is
// compared with dense decode attention.
Status AddSparseRows(Backend& backend, const BenchSparse::Shape& shape,
                     int num_rounds, const RoofSources& roofs,
                     nlohmann::ordered_json& rows);

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_SPARSE_ROWS_H_
