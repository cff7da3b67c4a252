#include "bench/ops/bench_products.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace winnow {
namespace {

// Products that share an input come in one call.
template <typename Visit>
void ForEachProduct(const Model& model, Visit&& visit) {
  const auto alone = [](const LinearWeights& weights) {
    return JoinedWeights{.products = {weights},
                         .widths = {weights.matrix.rows}};
  };
  for (const LayerWeights& layer : model.weights().layers) {
    visit(layer.qkv);
    visit(alone(layer.o));
    visit(layer.gate_up);
    visit(alone(layer.down));
  }
}

}  // namespace

std::vector<Bytes> ProductWeights(const Model& model) {
  const auto bytes_of = [](const WeightMatrix& weight) {
    return Bytes(weight.codes.data, static_cast<size_t>(weight.num_bytes()));
  };
  std::vector<Bytes> weights = {bytes_of(model.weights().lm_head)};
  ForEachProduct(model, [&](const JoinedWeights& group) {
    for (const LinearWeights& each : group.products) {
      weights.push_back(bytes_of(each.matrix));
    }
  });
  return weights;
}

int64_t ProductBytes(const Model& model) {
  int64_t num_bytes = 0;
  for (const Bytes weight : ProductWeights(model)) {
    num_bytes += std::ssize(weight);
  }
  return num_bytes;
}

double ProductFlops(const Model& model, int64_t rows, int64_t logit_rows) {
  double flops = 2.0 * static_cast<double>(logit_rows) *
                 static_cast<double>(model.weights().lm_head.num_weights());
  ForEachProduct(model, [&](const JoinedWeights& group) {
    for (const LinearWeights& each : group.products) {
      flops += 2.0 * static_cast<double>(rows) *
               static_cast<double>(each.matrix.num_weights());
    }
  });
  return flops;
}

size_t BenchProducts::RowsBytes(int64_t num_columns) const {
  return static_cast<size_t>(rows_ * num_columns *
                             DtypeBytes(model_->dtypes().compute));
}

Result<BenchProducts> BenchProducts::Create(Backend& backend,
                                            const Model& model, int64_t rows) {
  BenchProducts products(backend, model, rows);
  int64_t max_in = 0, max_out = 0;
  ForEachProduct(model, [&](const JoinedWeights& group) {
    max_in = std::max(max_in, group.products[0].matrix.columns);
    max_out = std::max(max_out, group.num_outputs());
  });
  ASSIGN_OR_RETURN(
      products.in_,
      backend.Allocate(Tier::kDevice, products.RowsBytes(max_in), "in"));
  ASSIGN_OR_RETURN(
      products.out_,
      backend.Allocate(Tier::kDevice, products.RowsBytes(max_out), "out"));
  // Some value: untouched memory would all be one page of zeros.
  CHECK(backend.attributes().device_is_host, "the input is filled in place");
  std::memset(products.in_.data(), 0x3c, products.in_.num_bytes());
  return products;
}

void BenchProducts::Run() {
  const Dtype dtype = model_->dtypes().compute;
  ForEachProduct(*model_, [&](const JoinedWeights& group) {
    const LinearParts parts(group,
                            out_.At(0, dtype, {rows_, group.num_outputs()}));
    LinearArgs args;
    args.x = in_.At(0, dtype, {rows_, group.products[0].matrix.columns});
    args.parts = parts.all();
    backend_->Linear(*queue_, args);
  });
}

}  // namespace winnow
