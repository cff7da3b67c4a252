#include "backend/cpu/rows/append.h"

#include <cstring>

#include "backend/cpu/isa/float_types.h"
#include "backend/cpu/step_rows.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

// out = x turned by the angles of `cos_sin`: pairs (i, i + half) of the first
// 2 * half numbers; the rest is copied. `out` may be x.
template <typename In, typename Out>
void Rotate(const In* x, int64_t size, const float* cos_sin, int64_t half,
            Out* out) {
  for (int64_t i = 0; i < half; ++i) {
    const float cosine = cos_sin[i];
    const float sine = cos_sin[half + i];
    const auto first = static_cast<float>(x[i]);
    const auto second = static_cast<float>(x[half + i]);
    out[i] = Out(first * cosine - second * sine);
    out[half + i] = Out(second * cosine + first * sine);
  }
  for (int64_t i = 2 * half; i < size; ++i) {
    out[i] = Out(static_cast<float>(x[i]));
  }
}

// Where an Append's rows stand, and how far they are turned.
struct AppendStep {
  const StepRows& rows;
  const TokenInputs& inputs;
  const LayerCache& cache;
  int64_t half_dim = 0;

  const float* CosSin(int64_t row) const {
    return half_dim == 0 ? nullptr : inputs.cos_sin.Row<float>(row);
  }
};

template <typename T>
void RotateQueries(const AppendStep& append, int64_t row) {
  const View& q = append.inputs.q;
  const View& q_pre = append.inputs.q_pre;
  for (int64_t head = 0; head < q.dim(1); ++head) {
    T* x = q.Row<T>(row) + head * q.stride[1];
    if (!q_pre.empty()) {
      T* kept = q_pre.Row<T>(row) + head * q_pre.stride[1];
      std::memcpy(kept, x, static_cast<size_t>(q.dim(2)) * sizeof(T));
    }
    Rotate(x, q.dim(2), append.CosSin(row), append.half_dim, x);
  }
}

template <typename In, typename Kv>
void WriteKeysAndValues(const AppendStep& append, int64_t row) {
  const HeadBlockFormat& format = append.cache.format;
  const View& k = append.inputs.k;
  const View& v = append.inputs.v;
  const int64_t position = append.rows.position(row);
  const int64_t token = position % format.page_tokens;
  const uint32_t kv_block = append.rows.KvBlock(
      append.cache, append.rows.request(row), position / format.page_tokens);
  for (int head = 0; head < append.cache.num_kv_heads; ++head) {
    std::byte* slice = append.cache.Slice(kv_block, head);
    Kv* k_out = reinterpret_cast<Kv*>(slice) + token * format.k_dim;
    Rotate(k.Row<In>(row) + head * k.stride[1], format.k_dim,
           append.CosSin(row), append.half_dim, k_out);
    if (format.v_in_k) continue;
    Kv* v_out = reinterpret_cast<Kv*>(slice + format.v_offset_bytes) +
                token * format.v_dim;
    const In* v_in = v.Row<In>(row) + head * v.stride[1];
    for (int i = 0; i < format.v_dim; ++i) {
      v_out[i] = Kv(static_cast<float>(v_in[i]));
    }
  }
}

}  // namespace

void AppendRows(const LayerStep& step, const TokenInputs& inputs,
                const LayerCache& cache, ThreadPool& pool) {
  if (step.num_rows == 0) return;
  CheckAppend(step, inputs, cache);
  const StepRows rows(step);
  const int64_t half_dim =
      inputs.cos_sin.empty() ? 0 : inputs.cos_sin.dim(1) / 2;
  const AppendStep append = {rows, inputs, cache, half_dim};
  WithFloatType(inputs.q.dtype, [&](auto q) {
    WithFloatType(inputs.k.dtype, [&](auto in) {
      WithFloatType(cache.format.k, [&](auto kv) {
        pool.ParallelRanges(
            step.num_rows, 8, [&](int64_t begin, int64_t end, int) {
              for (int64_t row = begin; row < end; ++row) {
                RotateQueries<decltype(q)>(append, row);
                WriteKeysAndValues<decltype(in), decltype(kv)>(append, row);
              }
            });
      });
    });
  });
}

}  // namespace winnow
