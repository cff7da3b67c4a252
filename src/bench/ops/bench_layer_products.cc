#include "bench/ops/bench_layer_products.h"

#include <algorithm>

namespace winnow {
namespace {

// Logits are made for the requests of a step, never for a prompt's rows.
constexpr int64_t kMaxLogitRows = 64;

}  // namespace

std::string_view BenchLayerProducts::Name(Product product) {
  switch (product) {
    case Product::kQkv:
      return "norm + QKV";
    case Product::kOutput:
      return "O + residual";
    case Product::kGateUp:
      return "norm + gate, up + activation";
    case Product::kDown:
      return "down + residual";
    case Product::kLogits:
      return "norm + logits";
  }
  return "";
}

Result<std::unique_ptr<BenchLayerProducts>> BenchLayerProducts::Create(
    Backend& backend, const Model& model, int64_t rows) {
  std::unique_ptr<BenchLayerProducts> bench(
      new BenchLayerProducts(backend, model, rows));
  const int64_t logit_rows = std::min(rows, kMaxLogitRows);
  ASSIGN_OR_RETURN(
      bench->activations_,
      Activations::Allocate(backend, model,
                            {.max_rows = rows, .max_logit_rows = logit_rows}));
  bench->views_ = bench->activations_->For(rows, logit_rows);
  ASSIGN_OR_RETURN(bench->hidden_,
                   bench->memory_.TakeRandom(
                       Dtype::kFloat32, {rows, model.config().hidden_size}));
  ASSIGN_OR_RETURN(
      bench->logits_,
      bench->memory_.Take(Dtype::kFloat32,
                          {logit_rows, model.config().vocab_size}));
  ASSIGN_OR_RETURN(bench->gated_,
                   bench->memory_.Take(model.dtypes().compute,
                                       {rows, bench->views_.gate.dim(1)}));
  RETURN_IF_ERROR(bench->Fill());
  return bench;
}

// Zeros would spare the device power, and so be too fast.
Status BenchLayerProducts::Fill() {
  const int64_t widest =
      std::max({views_.gate_up.dim(1), views_.q.dim(1), views_.normed.dim(1)});
  BenchMemory numbers(backend_);
  ASSIGN_OR_RETURN(
      const View random,
      numbers.TakeRandom(model_.dtypes().compute, {rows_ * widest}));
  const auto fill = [&](const View& first, int64_t columns) {
    const int64_t count = rows_ * columns;
    backend_.Copy(numbers.queue(), random.Slice(0, count),
                  MakeView(first.data, model_.dtypes().compute, {count}));
  };
  fill(views_.normed, views_.normed.dim(1));
  fill(views_.attended, views_.attended.dim(1));
  fill(views_.gate_up, views_.gate_up.dim(1));
  return backend_.Wait(backend_.Record(numbers.queue()),
                       std::chrono::minutes(1));
}

JoinedWeights BenchLayerProducts::WeightsOf(Product product, int layer) const {
  const auto alone = [](const LinearWeights& weights) {
    return JoinedWeights{.products = {weights},
                         .widths = {weights.matrix.rows}};
  };
  if (product == Product::kLogits) {
    return alone({.matrix = model_.weights().lm_head, .bias = {}});
  }
  const LayerWeights& weights =
      model_.weights().layers[static_cast<size_t>(layer)];
  switch (product) {
    case Product::kQkv:
      return weights.qkv;
    case Product::kOutput:
      return alone(weights.o);
    case Product::kGateUp:
      return weights.gate_up;
    default:
      return alone(weights.down);
  }
}

RmsNormArgs BenchLayerProducts::Norm(const View& weight) const {
  return {.x = hidden_,
          .weight = weight,
          .epsilon = model_.config().rms_epsilon,
          .out = views_.normed};
}

void BenchLayerProducts::Run(Product product, int layer) {
  const LayerWeights& weights =
      model_.weights().layers[static_cast<size_t>(layer)];
  LinearArgs args;
  View out;
  switch (product) {
    case Product::kQkv:
      args.x = views_.normed;
      args.norm = Norm(weights.input_norm);
      out = views_.qkv;
      break;
    case Product::kOutput:
      args.x = views_.attended;
      args.residual = hidden_;
      out = hidden_;
      break;
    case Product::kGateUp:
      args.x = views_.normed;
      args.norm = Norm(weights.post_attention_norm);
      args.gated_act = {.activation = model_.config().activation,
                        .gate = views_.gate,
                        .up = views_.up,
                        .out = views_.gate};
      out = views_.gate_up;
      break;
    case Product::kDown:
      args.x = views_.gate;
      args.residual = hidden_;
      out = hidden_;
      break;
    case Product::kLogits:
      args.norm = Norm(model_.weights().final_norm);
      args.norm->x = hidden_.Slice(0, logits_.dim(0));
      args.norm->out = views_.gathered_norm;
      args.x = views_.gathered_norm;
      out = logits_;
      break;
  }
  const LinearParts parts(WeightsOf(product, layer), out);
  args.parts = parts.all();
  backend_.Linear(queue(), args);
}

void BenchLayerProducts::GateUpAlone(int layer) {
  const LinearParts parts(WeightsOf(Product::kGateUp, layer), views_.gate_up);
  backend_.Linear(queue(),
                  {.x = views_.normed, .parts = parts.all(), .residual = {}});
}

void BenchLayerProducts::RmsNorm(int layer) {
  backend_.RmsNorm(
      queue(),
      Norm(model_.weights().layers[static_cast<size_t>(layer)].input_norm));
}

void BenchLayerProducts::GatedAct() {
  backend_.GatedAct(queue(), {.activation = model_.config().activation,
                              .gate = views_.gate,
                              .up = views_.up,
                              .out = gated_});
}

double BenchLayerProducts::bytes(Product product) const {
  double bytes = 0;
  int64_t columns = 0;
  const int64_t rows = product == Product::kLogits ? logits_.dim(0) : rows_;
  const JoinedWeights weights = WeightsOf(product, 0);
  for (const LinearWeights& each : weights.products) {
    bytes += static_cast<double>(each.matrix.num_bytes());
    columns += each.matrix.rows;
  }
  // Outputs are float32 where they are the residual stream or logits, and then
  // the stream is read as well.
  const bool adds = product == Product::kOutput || product == Product::kDown;
  const bool is_float = adds || product == Product::kLogits;
  if (product == Product::kGateUp) columns /= 2;
  const double in = product == Product::kOutput || product == Product::kDown
                        ? DtypeBytes(model_.dtypes().compute)
                        : 4;
  const double out = adds       ? 8
                     : is_float ? 4
                                : DtypeBytes(model_.dtypes().compute);
  return bytes +
         static_cast<double>(rows * weights.products[0].matrix.columns) * in +
         static_cast<double>(rows * columns) * out;
}

double BenchLayerProducts::flops(Product product) const {
  const int64_t rows = product == Product::kLogits ? logits_.dim(0) : rows_;
  double flops = 0;
  const JoinedWeights weights = WeightsOf(product, 0);
  for (const LinearWeights& each : weights.products) {
    flops += 2.0 * static_cast<double>(rows * each.matrix.num_weights());
  }
  return flops;
}

double BenchLayerProducts::rms_norm_bytes() const {
  return static_cast<double>(hidden_.num_elements()) *
         (4 + DtypeBytes(model_.dtypes().compute));
}

double BenchLayerProducts::gated_act_bytes() const {
  return 3.0 * static_cast<double>(rows_ * views_.gate.dim(1)) *
         DtypeBytes(model_.dtypes().compute);
}

}  // namespace winnow
