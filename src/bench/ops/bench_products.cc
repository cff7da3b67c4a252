#include "bench/ops/bench_products.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace winnow {
namespace {

// The products of one layer, those that share an input together.
std::vector<std::vector<View>> LayerProducts(const LayerWeights& layer) {
  return {{layer.q, layer.k, layer.v},
          {layer.o},
          {layer.gate, layer.up},
          {layer.down}};
}

template <typename Visit>
void ForEachProduct(const Model& model, Visit&& visit) {
  for (const LayerWeights& layer : model.weights().layers) {
    for (const auto& group : LayerProducts(layer)) visit(group);
  }
}

}  // namespace

std::vector<Bytes> ProductWeights(const Model& model) {
  const auto bytes_of = [](const View& weight) {
    return Bytes(weight.data, static_cast<size_t>(weight.num_bytes()));
  };
  std::vector<Bytes> weights = {bytes_of(model.weights().lm_head)};
  ForEachProduct(model, [&](const std::vector<View>& group) {
    for (const View& weight : group) weights.push_back(bytes_of(weight));
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
                 static_cast<double>(model.weights().lm_head.num_elements());
  ForEachProduct(model, [&](const std::vector<View>& group) {
    for (const View& weight : group) {
      flops += 2.0 * static_cast<double>(rows) *
               static_cast<double>(weight.num_elements());
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
  ForEachProduct(model, [&](const std::vector<View>& group) {
    int64_t out = 0;
    for (const View& weight : group) out += weight.dim(0);
    max_in = std::max(max_in, group[0].dim(1));
    max_out = std::max(max_out, out);
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
  ForEachProduct(*model_, [&](const std::vector<View>& group) {
    std::vector<LinearPart> parts;
    size_t offset = 0;
    for (const View& weight : group) {
      LinearPart part;
      part.weight = weight;
      part.out =
          out_.At(offset, model_->dtypes().compute, {rows_, weight.dim(0)});
      parts.push_back(part);
      offset += RowsBytes(weight.dim(0));
    }
    LinearArgs args;
    args.x = in_.At(0, model_->dtypes().compute, {rows_, group[0].dim(1)});
    args.parts = parts;
    backend_->Linear(*queue_, args);
  });
}

}  // namespace winnow
