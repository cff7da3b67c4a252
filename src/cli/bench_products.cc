#include "cli/bench_products.h"

#include <algorithm>

#include "cli/roof.h"

namespace winnow {
namespace {

int64_t NumBytes(const View& view) {
  return view.num_elements() * DtypeBytes(view.dtype);
}

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

int64_t ProductBytes(const Model& model) {
  int64_t num_bytes = NumBytes(model.weights().lm_head);
  ForEachProduct(model, [&](const std::vector<View>& group) {
    for (const View& weight : group) num_bytes += NumBytes(weight);
  });
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

Result<double> ProductSeconds(Backend& backend, const Model& model,
                              int64_t rows) {
  int64_t max_in = 0, max_out = 0;
  ForEachProduct(model, [&](const std::vector<View>& group) {
    int64_t out = 0;
    for (const View& weight : group) out += weight.dim(0);
    max_in = std::max(max_in, group[0].dim(1));
    max_out = std::max(max_out, out);
  });
  const Dtype dtype = model.dtype();
  const auto bytes_of = [&](int64_t columns) {
    return static_cast<size_t>(rows * columns * DtypeBytes(dtype));
  };
  ASSIGN_OR_RETURN(const Buffer in,
                   backend.Allocate(Tier::kDevice, bytes_of(max_in), "in"));
  ASSIGN_OR_RETURN(const Buffer out,
                   backend.Allocate(Tier::kDevice, bytes_of(max_out), "out"));
  const std::unique_ptr<Queue> queue = backend.MakeQueue();
  constexpr int kNumRuns = 3;
  return MedianSeconds(kNumRuns, [&] {
    ForEachProduct(model, [&](const std::vector<View>& group) {
      std::vector<LinearPart> parts;
      size_t offset = 0;
      for (const View& weight : group) {
        LinearPart part;
        part.weight = weight;
        part.out = out.At(offset, dtype, {rows, weight.dim(0)});
        parts.push_back(part);
        offset += bytes_of(weight.dim(0));
      }
      LinearArgs args;
      args.x = in.At(0, dtype, {rows, group[0].dim(1)});
      args.parts = parts;
      backend.Linear(*queue, args);
    });
  });
}

}  // namespace winnow
