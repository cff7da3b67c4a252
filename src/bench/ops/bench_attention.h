// BenchAttention: one layer's attention over a synthetic context, for winnow
// bench ops.
#ifndef WINNOW_BENCH_OPS_BENCH_ATTENTION_H_
#define WINNOW_BENCH_OPS_BENCH_ATTENTION_H_

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "bench/roofs/roof.h"
#include "model/forward/model.h"

namespace winnow {

// Owns the KV of one request of `context_tokens` random tokens, with pages in
// random order, and a step's rows at its end. Has several layers of KV, so that
// the CPU's caches do not keep it from run to run.
class BenchAttention {
 public:
  // The rows [first_position, context_tokens) of the request, as prefill or
  // decode rows. head_dim need not be the model's. REQUIRES: backend and model
  // outlive this.
  struct Shape {
    int64_t context_tokens = 0;
    int64_t first_position = 0;
    bool prefill_rows = false;
    int head_dim = 0;
    int num_layers = 1;
    // False: pages are in order, as in a pool without fragmentation.
    bool shuffled_pages = false;
  };
  static Result<std::unique_ptr<BenchAttention>> Create(Backend& backend,
                                                        const Model& model,
                                                        const Shape& shape);

  // Runs Attend once over all rows, `chunk` rows at a time. Each call uses the
  // next layer.
  void Run(int64_t chunk);
  // K and V of the layer of the next Run, which then skips to the layer behind
  // it.
  Bytes NextLayerKv();

  const Shape& shape() const { return shape_; }
  // Of one Run: bytes of K and V, read at least once; flops of q k^T and p v
  // under causality.
  double kv_bytes() const;
  double flops() const;

 private:
  BenchAttention(Backend& backend, const ModelConfig& config,
                 const Shape& shape)
      : backend_(backend), config_(config), shape_(shape) {}
  Status Allocate(const Dtypes& dtypes);
  void FillRandomly(const View& view);
  LayerStep StepFor(int64_t first_position, int64_t num_rows);

  Backend& backend_;
  const ModelConfig& config_;
  const Shape shape_;
  size_t layer_bytes_ = 0;
  int layer_ = 0;  // that the next Run reads
  Dtypes dtypes_;
  std::unique_ptr<Queue> queue_;
  Buffer layer_blocks_, q_, out_, tables_;
  LayerCache cache_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_ATTENTION_H_
