// BenchLayerProducts: a layer's products with the ops around them, as in the
// forward pass, on any device.
#ifndef WINNOW_BENCH_OPS_BENCH_LAYER_PRODUCTS_H_
#define WINNOW_BENCH_OPS_BENCH_LAYER_PRODUCTS_H_

#include <memory>
#include <optional>
#include <string_view>

#include "backend/backend.h"
#include "bench/roofs/bench_memory.h"
#include "model/forward/activations.h"
#include "model/forward/model.h"

namespace winnow {

// Owns the activations of `rows` rows, random numbers. Enqueues ops on its
// queue and waits for nothing.
class BenchLayerProducts {
 public:
  enum class Product { kQkv, kOutput, kGateUp, kDown, kLogits };
  static std::string_view Name(Product product);  // "norm + QKV"

  // REQUIRES: backend and model outlive this.
  static Result<std::unique_ptr<BenchLayerProducts>> Create(Backend& backend,
                                                            const Model& model,
                                                            int64_t rows);

  Queue& queue() const { return memory_.queue(); }

  // kLogits has no layer.
  void Run(Product product, int layer);
  // kGateUp without its neighbours: the widest product of a layer.
  void GateUpAlone(int layer);
  // The ops around the products, alone.
  void RmsNorm(int layer);
  void GatedAct();

  // Of one layer: weights, and rows in and out.
  double bytes(Product product) const;
  double flops(Product product) const;
  double rms_norm_bytes() const;
  double gated_act_bytes() const;

 private:
  BenchLayerProducts(Backend& backend, const Model& model, int64_t rows)
      : backend_(backend), model_(model), rows_(rows), memory_(backend) {}
  Status Fill();
  JoinedWeights WeightsOf(Product product, int layer) const;
  RmsNormArgs Norm(const View& weight) const;

  Backend& backend_;
  const Model& model_;
  const int64_t rows_;
  BenchMemory memory_;
  std::optional<Activations> activations_;
  Activations::Views views_;
  View hidden_;  // f32 [rows, hidden]
  View logits_;  // f32 [rows, vocab]
  // [rows, ffn]: apart from `gate`, because repeated runs in place would shrink
  // the numbers to 0.
  View gated_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_LAYER_PRODUCTS_H_
