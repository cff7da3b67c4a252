#include "bench/ops/op_requests.h"

#include <algorithm>

#include "engine/engine_options.h"

namespace winnow {

BenchRequests::Shape OpRequests::ShapeOf(int batch, int64_t context) const {
  const ModelConfig& config = model_.config();
  return {.num_q_heads = config.num_q_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .dtypes = model_.dtypes(),
          .batch = batch,
          .context_tokens = context};
}

Result<std::unique_ptr<BenchRequests>> OpRequests::Make(
    BenchRequests::Shape shape, double touched_share, int least_layers) const {
  // A part of what is left: roofs, rows and the ops' own memory are there.
  const auto left_bytes = static_cast<int64_t>(
      0.8 * static_cast<double>(MemoryLeft(backend_.attributes(), model_) -
                                2 * options_.roofs.copied_bytes));
  while (shape.batch > 1 && BenchRequests::LayerBytes(shape) > left_bytes) {
    shape.batch /= 2;
  }
  const int64_t layer_bytes = BenchRequests::LayerBytes(shape);
  const auto touched_bytes =
      static_cast<int64_t>(touched_share * static_cast<double>(layer_bytes));
  const int64_t wanted = std::max<int64_t>(
      least_layers,
      options_.round_bytes / std::max<int64_t>(1, touched_bytes) + 1);
  const int64_t fitting = std::max<int64_t>(1, left_bytes / layer_bytes);
  shape.num_layers = static_cast<int>(
      std::min({wanted, fitting, int64_t{model_.config().num_layers}}));
  return BenchRequests::Create(backend_, shape);
}

int OpRequests::CallsOver(int num_layers) {
  return (kLeastCalls + num_layers - 1) / num_layers * num_layers;
}

}  // namespace winnow
