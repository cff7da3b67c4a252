#include "model/forward/activations.h"

#include <algorithm>

namespace winnow {
namespace {

constexpr size_t kViewAlignment = 64;

// Hands out places one after another.
class Carver {
 public:
  Carver(std::byte* base, size_t offset_bytes)
      : base_(base), offset_bytes_(offset_bytes) {}

  View Take(int64_t rows, int64_t width, Dtype dtype) {
    std::byte* data = base_ == nullptr ? nullptr : base_ + offset_bytes_;
    const View view = MakeView(data, dtype, {rows, width});
    const auto bytes = static_cast<size_t>(view.num_elements()) *
                       static_cast<size_t>(DtypeBytes(dtype));
    offset_bytes_ +=
        (bytes + kViewAlignment - 1) / kViewAlignment * kViewAlignment;
    return view;
  }
  size_t offset_bytes() const { return offset_bytes_; }

 private:
  std::byte* base_;
  size_t offset_bytes_;
};

}  // namespace

Activations::Widths Activations::WidthsOf(const Model& model) {
  const ModelConfig& config = model.config();
  return {.hidden = config.hidden_size,
          .q = int64_t{config.num_q_heads} * config.head_dim,
          .kv = int64_t{config.num_kv_heads} * config.head_dim,
          .intermediate = config.intermediate_size,
          .rotary = config.rope.rotary_dim,
          .dtype = model.dtypes().compute};
}

size_t Activations::Place(const Widths& widths, const Limits& rows,
                          std::byte* base, Views& views) {
  const int64_t n = rows.max_rows;
  const int64_t wanted = rows.max_logit_rows;
  Carver shared(base, 0);
  views.cos_sin = shared.Take(n, widths.rotary, Dtype::kFloat32);
  views.normed = shared.Take(n, widths.hidden, widths.dtype);
  Carver attention(base, shared.offset_bytes());
  views.qkv = attention.Take(n, widths.q + 2 * widths.kv, widths.dtype);
  views.q = views.qkv.Columns(0, widths.q);
  views.k = views.qkv.Columns(widths.q, widths.kv);
  views.v = views.qkv.Columns(widths.q + widths.kv, widths.kv);
  views.attended = attention.Take(n, widths.q, widths.dtype);
  if (rows.keeps_q_pre) {
    views.q_pre = attention.Take(n, widths.q, widths.dtype);
  }
  Carver feed_forward(base, shared.offset_bytes());
  views.gate_up = feed_forward.Take(n, 2 * widths.intermediate, widths.dtype);
  views.gate = views.gate_up.Columns(0, widths.intermediate);
  views.up = views.gate_up.Columns(widths.intermediate, widths.intermediate);
  Carver logits(base, shared.offset_bytes());
  views.gathered = logits.Take(wanted, widths.hidden, Dtype::kFloat32);
  views.gathered_norm = logits.Take(wanted, widths.hidden, widths.dtype);
  return std::max({attention.offset_bytes(), feed_forward.offset_bytes(),
                   logits.offset_bytes()});
}

size_t Activations::NumBytes(const Model& model, const Limits& limits) {
  Views unused;
  return Place(WidthsOf(model), limits, nullptr, unused);
}

Result<Activations> Activations::Allocate(Backend& backend, const Model& model,
                                          const Limits& limits) {
  CHECK(limits.max_rows > 0 && limits.max_logit_rows >= 0,
        "max_rows={} max_logit_rows={}", limits.max_rows,
        limits.max_logit_rows);
  ASSIGN_OR_RETURN(
      Buffer buffer,
      backend.Allocate(Tier::kDevice, NumBytes(model, limits), "activations"));
  return Activations(WidthsOf(model), limits, std::move(buffer));
}

Activations::Views Activations::For(int64_t num_rows,
                                    int64_t num_logit_rows) const {
  CHECK(0 <= num_rows && num_rows <= limits_.max_rows, "rows={} max={}",
        num_rows, limits_.max_rows);
  CHECK(0 <= num_logit_rows && num_logit_rows <= limits_.max_logit_rows,
        "logit_rows={} max={}", num_logit_rows, limits_.max_logit_rows);
  Views views;
  Place(widths_,
        {.max_rows = num_rows,
         .max_logit_rows = num_logit_rows,
         .keeps_q_pre = limits_.keeps_q_pre},
        buffer_.data(), views);
  return views;
}

}  // namespace winnow
