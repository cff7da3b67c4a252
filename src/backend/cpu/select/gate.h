// Learned gates (SeerAttention-R): the keys of blocks and the queries of rows.
#ifndef WINNOW_BACKEND_CPU_SELECT_GATE_H_
#define WINNOW_BACKEND_CPU_SELECT_GATE_H_

#include <array>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/select/key_run.h"
#include "base/thread_pool.h"

namespace winnow {

// One KV head's gate, and how its request's keys are turned.
struct HeadGate {
  const GateWeights& weights;
  int head = 0;
  const float* frequencies = nullptr;  // [half_dim]
  int half_dim = 0;
  float rope_scale = 1;
};

// What keys of a block say before they are projected: greatest, least, mean.
using GatePool = std::array<float, 3 * kMaxKeyDim>;  // [3, k_dim]

// The angles of a position: cosines, then sines, scaled.
void GateAngles(const HeadGate& gate, int64_t position,
                std::span<float> cos_sin);  // [2 * half_dim]
// A key as it was before RoPE, in place.
void TurnBack(std::span<const float> cos_sin, float rope_scale,
              std::span<float> key);  // [k_dim]
// Projects, normalises and turns: float32 sums over ascending inputs.
struct GateInput {
  std::span<const float> numbers;  // [inputs]
  const float* weights = nullptr;  // [inputs, k_dim]
  const float* norm = nullptr;     // [k_dim], or null
  const float* cos_sin = nullptr;  // [2 * half_dim]
  int half_dim = 0;
};
void ProjectGate(const GateInput& input, std::span<float> out);  // [k_dim]

// The pooled numbers of keys, and the block's key from them.
void MakeGateKey(const GatePool& pool, const HeadGate& gate, int64_t position,
                 std::span<float> key);  // [k_dim]

template <typename Kv>
void MakeGateKey(const KeyRun<Kv>& keys, const HeadGate& gate, Channels& key) {
  const auto k_dim = static_cast<size_t>(keys.cache.format.k_dim);
  GatePool pool;
  Channels cos_sin, x;
  for (int64_t t = keys.first; t < keys.first + keys.count; ++t) {
    const Kv* stored = keys.Key(t);
    for (size_t c = 0; c < k_dim; ++c) x[c] = static_cast<float>(stored[c]);
    const auto angles =
        std::span(cos_sin).first(2 * static_cast<size_t>(gate.half_dim));
    GateAngles(gate, t, angles);
    TurnBack(angles, gate.rope_scale, std::span(x).first(k_dim));
    for (size_t c = 0; c < k_dim; ++c) {
      const bool first = t == keys.first;
      pool[c] = first ? x[c] : std::max(pool[c], x[c]);
      pool[k_dim + c] = first ? x[c] : std::min(pool[k_dim + c], x[c]);
      pool[2 * k_dim + c] = first ? x[c] : pool[2 * k_dim + c] + x[c];
    }
  }
  for (size_t c = 0; c < k_dim; ++c) {
    pool[2 * k_dim + c] /= static_cast<float>(keys.count);
  }
  MakeGateKey(pool, gate, keys.first, std::span(key).first(k_dim));
}

// Owns memory that grows to the rows of the largest step; used by the backend's
// thread.
class GateQueries {
 public:
  // The queries of args.picks' rows whose selector has gates: f32 [rows of the
  // step, kv_heads, k_dim]. Empty where none has. Valid until the next call.
  View Make(const LayerStep& step, const SelectArgs& args,
            const LayerCache& cache, ThreadPool& pool);

 private:
  Buffer memory_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_GATE_H_
