#include "backend/cuda/cuda_types.h"
#include "backend/cuda/dependent_launch.h"
#include "backend/cuda/device/dependent_launch.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/page_verbs.h"
#include "backend/cuda/step_views.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

constexpr int kHeadsPerBlock = 8;  // a warp each

// A [rows, heads, dim] tensor.
struct Heads {
  std::byte* data;  // null: none
  int64_t row_stride, head_stride;

  template <typename T>
  __device__ T* At(int64_t row, int64_t head) const {
    return reinterpret_cast<T*>(data) + row * row_stride + head * head_stride;
  }
};

Heads HeadsOf(const View& view) {
  return {view.data, view.stride[0], view.stride[1]};
}

struct AppendShape {
  Heads q, q_pre, k, v;
  const float* cos_sin;  // null: nothing turns
  int64_t cos_sin_stride;
  int num_q_heads;
  int half_dim;
  bool writes_v;
};

// out = x turned by the row's angles: pairs (i, i + half) of the first 2 *
// half numbers; the rest is copied. `out` may be `x`: one lane has a pair.
template <typename In, typename Out>
__device__ void Rotate(const In* x, int size, const float* cos_sin, int half,
                       Out* out) {
  const int lane = static_cast<int>(threadIdx.x) % warpSize;
  constexpr int kAtOnce = 2;  // pairs whose loads are under way together
  for (int begin = lane; begin < half; begin += kAtOnce * warpSize) {
    float first[kAtOnce] = {}, second[kAtOnce] = {};
    float cosine[kAtOnce] = {}, sine[kAtOnce] = {};
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = begin + j * warpSize;
      if (i >= half) break;
      cosine[j] = cos_sin[i];
      sine[j] = cos_sin[half + i];
      first[j] = device::ToFloat(x[i]);
      second[j] = device::ToFloat(x[half + i]);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = begin + j * warpSize;
      if (i >= half) break;
      out[i] =
          device::FromFloat<Out>(first[j] * cosine[j] - second[j] * sine[j]);
      out[half + i] =
          device::FromFloat<Out>(second[j] * cosine[j] + first[j] * sine[j]);
    }
  }
  for (int i = 2 * half + lane; i < size; i += warpSize) {
    out[i] = device::FromFloat<Out>(device::ToFloat(x[i]));
  }
}

// A warp a (row, head): heads are q's, then k's, then v's.
template <typename Q, typename In, typename Kv>
__global__ void AppendKernel(device::StepRows rows, device::Pages pages,
                             AppendShape shape) {
  device::LetNextBegin();
  const int row = static_cast<int>(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % warpSize;
  int head = static_cast<int>(blockIdx.y) * kHeadsPerBlock +
             static_cast<int>(threadIdx.x) / warpSize;
  const float* cos_sin = shape.cos_sin + row * shape.cos_sin_stride;
  if (head < shape.num_q_heads) {
    device::WaitForPrior();
    Q* q = shape.q.At<Q>(row, head);
    if (shape.q_pre.data != nullptr) {
      Q* kept = shape.q_pre.At<Q>(row, head);
      for (int i = lane; i < pages.k_dim; i += warpSize) kept[i] = q[i];
      __syncwarp();
    }
    Rotate(q, pages.k_dim, cos_sin, shape.half_dim, q);
    return;
  }
  head -= shape.num_q_heads;
  const bool is_key = head < pages.num_kv_heads;
  if (!is_key) head -= pages.num_kv_heads;
  if (head >= pages.num_kv_heads || (!is_key && !shape.writes_v)) {
    return device::WaitForPrior();
  }
  constexpr int kTokens = 32;  // a page
  const int position = rows.Position(row);
  const int token = position % kTokens;
  std::byte* slice = pages.Slice(rows.Request(row), position / kTokens, head);
  device::WaitForPrior();
  if (is_key) {
    Rotate(shape.k.At<In>(row, head), pages.k_dim, cos_sin, shape.half_dim,
           reinterpret_cast<Kv*>(slice) + token * pages.k_dim);
    return;
  }
  Kv* to =
      reinterpret_cast<Kv*>(slice + pages.v_offset_bytes) + token * pages.v_dim;
  const In* from = shape.v.At<In>(row, head);
#pragma unroll 4
  for (int i = lane; i < pages.v_dim; i += warpSize) {
    to[i] = device::FromFloat<Kv>(device::ToFloat(from[i]));
  }
}

}  // namespace

void EnqueueAppend(CudaQueue& queue, const LayerStep& step,
                   const TokenInputs& inputs, const LayerCache& cache) {
  if (step.num_rows == 0) return;
  CheckAppend(step, inputs, cache);
  AppendShape shape = {};
  shape.q = HeadsOf(inputs.q);
  if (!inputs.q_pre.empty()) shape.q_pre = HeadsOf(inputs.q_pre);
  shape.k = HeadsOf(inputs.k);
  shape.writes_v = !cache.format.v_in_k;
  if (shape.writes_v) shape.v = HeadsOf(inputs.v);
  if (!inputs.cos_sin.empty()) {
    shape.cos_sin = inputs.cos_sin.As<float>();
    shape.cos_sin_stride = inputs.cos_sin.stride[0];
    shape.half_dim = static_cast<int>(inputs.cos_sin.dim(1) / 2);
  }
  shape.num_q_heads = static_cast<int>(inputs.q.dim(1));
  const int num_heads = shape.num_q_heads + 2 * cache.num_kv_heads;
  const dim3 grid(
      static_cast<unsigned>(step.num_rows),
      static_cast<unsigned>((num_heads + kHeadsPerBlock - 1) / kHeadsPerBlock));
  WithCudaFloat(inputs.q.dtype, [&](auto q) {
    WithCudaFloat(inputs.k.dtype, [&](auto in) {
      WithCudaFloat(cache.format.k, [&](auto kv) {
        LaunchDependent(queue, "Append",
                        AppendKernel<decltype(q), decltype(in), decltype(kv)>,
                        {.blocks = grid, .num_threads = kHeadsPerBlock * 32},
                        DeviceRows(step), DevicePages(cache), shape);
      });
    });
  });
}

}  // namespace winnow
