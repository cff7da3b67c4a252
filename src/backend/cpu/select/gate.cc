#include "backend/cpu/select/gate.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/grown_buffer.h"
#include "backend/cpu/isa/float_types.h"

namespace winnow {
namespace {

// Bounds what a worker keeps on its stack: 64 heads of 256 channels.
constexpr int64_t kMaxGroupDim = 1 << 14;

bool HasGate(const LayerSelector& selector) {
  return selector.program != nullptr &&
         selector.program->rows.kind == SummaryRows::Kind::kGate;
}

void CheckGate(const LayerSelector& selector, const SelectArgs& args,
               const LayerCache& cache) {
  const int64_t k_dim = cache.format.k_dim;
  const int64_t group_dim = args.q.dim(1) / cache.num_kv_heads * k_dim;
  const GateWeights& gate = selector.gate;
  CHECK(gate.q.rank == 3 && gate.q.dim(0) == cache.num_kv_heads &&
            gate.q.dim(1) == group_dim && gate.q.dim(2) == k_dim,
        "gate {} kv_heads={} group_dim={} k_dim={}", ToString(gate.q),
        cache.num_kv_heads, group_dim, k_dim);
  CHECK(args.q_pre.shape == args.q.shape && args.q_pre.dtype == args.q.dtype &&
            args.cos_sin.rank == 2 && args.cos_sin.dim(0) == args.q.dim(0),
        "q {} q_pre {} cos_sin {}", ToString(args.q), ToString(args.q_pre),
        ToString(args.cos_sin));
}

}  // namespace

void GateAngles(const HeadGate& gate, int64_t position,
                std::span<float> cos_sin) {
  const auto half = static_cast<size_t>(gate.half_dim);
  for (size_t i = 0; i < half; ++i) {
    // As RotaryAngles has them.
    const double angle = static_cast<float>(position) * gate.frequencies[i];
    cos_sin[i] = static_cast<float>(std::cos(angle)) * gate.rope_scale;
    cos_sin[half + i] = static_cast<float>(std::sin(angle)) * gate.rope_scale;
  }
}

void TurnBack(std::span<const float> cos_sin, float rope_scale,
              std::span<float> key) {
  const size_t half = cos_sin.size() / 2;
  // Turning multiplied by the scale once, and does so again here.
  const float square = rope_scale * rope_scale;
  for (size_t i = 0; i < half; ++i) {
    const float first = key[i], second = key[half + i];
    const float cosine = cos_sin[i], sine = cos_sin[half + i];
    key[i] = (first * cosine + second * sine) / square;
    key[half + i] = (second * cosine - first * sine) / square;
  }
}

void ProjectGate(const GateInput& input, std::span<float> out) {
  const size_t k_dim = out.size();
  std::ranges::fill(out, 0.0f);
  for (size_t i = 0; i < input.numbers.size(); ++i) {
    const float x = input.numbers[i];
    const float* weights = input.weights + i * k_dim;
    for (size_t c = 0; c < k_dim; ++c) out[c] += x * weights[c];
  }
  if (input.norm != nullptr) {
    float squares = 0;
    for (const float x : out) squares += x * x;
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(k_dim) +
                                         GateWeights::kNormEpsilon);
    for (size_t c = 0; c < k_dim; ++c) out[c] = out[c] * scale * input.norm[c];
  }
  const auto half = static_cast<size_t>(input.half_dim);
  for (size_t i = 0; i < half; ++i) {
    const float first = out[i], second = out[half + i];
    const float cosine = input.cos_sin[i], sine = input.cos_sin[half + i];
    out[i] = first * cosine - second * sine;
    out[half + i] = second * cosine + first * sine;
  }
}

void MakeGateKey(const GatePool& pool, const HeadGate& gate, int64_t position,
                 std::span<float> key) {
  const size_t k_dim = key.size();
  const View& weights = gate.weights.k;
  const View& norm = gate.weights.k_norm;
  CHECK(weights.rank == 3 &&
            weights.dim(1) == 3 * static_cast<int64_t>(k_dim) &&
            weights.dim(2) == static_cast<int64_t>(k_dim),
        "gate {} k_dim={}", ToString(weights), k_dim);
  Channels cos_sin;
  GateAngles(gate, position,
             std::span(cos_sin).first(2 * static_cast<size_t>(gate.half_dim)));
  ProjectGate({.numbers = std::span(pool).first(3 * k_dim),
               .weights = weights.Row<float>(gate.head),
               .norm = norm.empty() ? nullptr : norm.As<float>(),
               .cos_sin = cos_sin.data(),
               .half_dim = gate.half_dim},
              key);
}

View GateQueries::Make(const LayerStep& step, const SelectArgs& args,
                       const LayerCache& cache, ThreadPool& pool) {
  if (std::ranges::none_of(args.selectors, HasGate)) return {};
  for (const LayerSelector& selector : args.selectors) {
    if (HasGate(selector)) CheckGate(selector, args, cache);
  }
  const StepRows rows(step);
  const int64_t num_heads = cache.num_kv_heads;
  const int64_t k_dim = cache.format.k_dim;
  Grow(static_cast<size_t>(step.num_rows * num_heads * k_dim) * sizeof(float),
       memory_);
  const View queries = MakeView(memory_.data(), Dtype::kFloat32,
                                {step.num_rows, num_heads, k_dim});
  const int64_t group_dim = args.q.dim(1) / num_heads * k_dim;
  WithFloatType(args.q_pre.dtype, [&](auto element) {
    using Q = decltype(element);
    pool.ParallelFor(args.picks.num_rows() * num_heads, [&](int64_t item, int) {
      const int64_t row = args.picks.first_row + item / num_heads;
      const int64_t head = item % num_heads;
      const int index = rows.selector(rows.request(row));
      if (index < 0) return;
      const LayerSelector& selector =
          args.selectors[static_cast<size_t>(index)];
      if (!HasGate(selector) || rows.is_prompt(row)) return;
      std::array<float, kMaxGroupDim> numbers;
      CHECK(group_dim <= kMaxGroupDim, "group_dim={}", group_dim);
      const Q* q = args.q_pre.Row<Q>(row) + head * group_dim;
      for (int64_t i = 0; i < group_dim; ++i) {
        numbers[static_cast<size_t>(i)] = static_cast<float>(q[i]);
      }
      const View& norm = selector.gate.q_norm;
      ProjectGate(
          {.numbers = std::span(numbers).first(static_cast<size_t>(group_dim)),
           .weights = selector.gate.q.Row<float>(head),
           .norm = norm.empty() ? nullptr : norm.As<float>(),
           .cos_sin = args.cos_sin.Row<float>(row),
           .half_dim = static_cast<int>(args.cos_sin.dim(1)) / 2},
          {queries.Row<float>(row) + head * k_dim, static_cast<size_t>(k_dim)});
    });
  });
  return queries;
}

}  // namespace winnow
