#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/device/runtime/piece.cuh"
#include "backend/cuda/rows/page_ops.h"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"
#include "backend/cuda/runtime/step_views.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

// Who does a head, where kNumbers numbers are moved at once: a warp one by one,
// and eight lanes whole pieces, which are one each of 128 channels.
template <int kNumbers>
struct HeadThreads {
  static constexpr int kLanes = kNumbers == 1 ? 32 : 8;
  static constexpr int kHeads = kNumbers == 1 ? 8 : 16;  // a block
};
constexpr int kPieceOfHead = 8;  // numbers

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
// `kept`, where it is not null, becomes x as it was.
template <int kNumbers, typename In, typename Out>
__device__ void Rotate(const In* x, int size, const float* cos_sin, int half,
                       In* kept, Out* out) {
  using Numbers = device::Piece<In, kNumbers>;
  using Angles = device::Piece<float, kNumbers>;
  using Turned = device::Piece<Out, kNumbers>;
  constexpr int kLanes = HeadThreads<kNumbers>::kLanes;
  constexpr int kStep = kLanes * kNumbers;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  constexpr int kAtOnce = kNumbers == 1 ? 2 : 1;  // pairs on their way together
#pragma unroll 1
  for (int begin = lane * kNumbers; begin < half; begin += kAtOnce * kStep) {
    Numbers first[kAtOnce] = {}, second[kAtOnce] = {};
    Angles cosine[kAtOnce] = {}, sine[kAtOnce] = {};
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = begin + k * kStep;
      if (i >= half) break;
      cosine[k] = Angles::Load(cos_sin + i);
      sine[k] = Angles::Load(cos_sin + half + i);
      first[k] = Numbers::Load(x + i);
      second[k] = Numbers::Load(x + half + i);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = begin + k * kStep;
      if (i >= half) break;
      Turned low, high;
#pragma unroll
      for (int j = 0; j < kNumbers; ++j) {
        const float a = device::ToFloat(first[k].numbers[j]);
        const float b = device::ToFloat(second[k].numbers[j]);
        const float c = cosine[k].numbers[j], s = sine[k].numbers[j];
        low.numbers[j] = device::FromFloat<Out>(a * c - b * s);
        high.numbers[j] = device::FromFloat<Out>(b * c + a * s);
      }
      if (kept != nullptr) {
        first[k].Store(kept + i);
        second[k].Store(kept + half + i);
      }
      low.Store(out + i);
      high.Store(out + half + i);
    }
  }
#pragma unroll 2
  for (int i = 2 * half + lane * kNumbers; i < size; i += kStep) {
    const Numbers numbers = Numbers::Load(x + i);
    if (kept != nullptr) numbers.Store(kept + i);
    Turned copy;
#pragma unroll
    for (int j = 0; j < kNumbers; ++j) {
      copy.numbers[j] =
          device::FromFloat<Out>(device::ToFloat(numbers.numbers[j]));
    }
    copy.Store(out + i);
  }
}

// Some lanes a (row, head): heads are q's, then k's, then v's.
template <typename Q, typename In, typename Kv, int kNumbers>
__global__ void __launch_bounds__(
    HeadThreads<kNumbers>::kHeads* HeadThreads<kNumbers>::kLanes)
    AppendKernel(device::StepRows rows, device::Pages pages,
                 AppendShape shape) {
  using Threads = HeadThreads<kNumbers>;
  device::LetNextBegin();
  const int row = static_cast<int>(blockIdx.x);
  int head = static_cast<int>(blockIdx.y) * Threads::kHeads +
             static_cast<int>(threadIdx.x) / Threads::kLanes;
  const float* cos_sin = shape.cos_sin + row * shape.cos_sin_stride;
  if (head < shape.num_q_heads) {
    device::WaitForPrior();
    Q* q = shape.q.At<Q>(row, head);
    Q* kept =
        shape.q_pre.data == nullptr ? nullptr : shape.q_pre.At<Q>(row, head);
    return Rotate<kNumbers>(q, pages.k_dim, cos_sin, shape.half_dim, kept, q);
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
  In* const nothing = nullptr;
  if (is_key) {
    return Rotate<kNumbers>(shape.k.At<In>(row, head), pages.k_dim, cos_sin,
                            shape.half_dim, nothing,
                            reinterpret_cast<Kv*>(slice) + token * pages.k_dim);
  }
  // Nothing turns.
  Rotate<kNumbers>(shape.v.At<In>(row, head), pages.v_dim, cos_sin, 0, nothing,
                   reinterpret_cast<Kv*>(slice + pages.v_offset_bytes) +
                       token * pages.v_dim);
}

// Whether every head begins at a piece and consists of pieces, where it comes
// from and where it goes.
bool HasPieces(const AppendShape& shape, const device::Pages& pages) {
  const auto address = [](const void* data) {
    return reinterpret_cast<uintptr_t>(data);
  };
  uint64_t bytes = address(shape.cos_sin) | address(pages.layer_blocks) |
                   static_cast<uint64_t>(pages.kv_block_stride_bytes) |
                   static_cast<uint64_t>(pages.head_block_bytes) |
                   static_cast<uint64_t>(pages.v_offset_bytes);
  uint64_t numbers =
      static_cast<uint64_t>(shape.cos_sin_stride) |
      static_cast<uint64_t>(shape.half_dim | pages.k_dim | pages.v_dim);
  for (const Heads& heads : {shape.q, shape.q_pre, shape.k, shape.v}) {
    bytes |= address(heads.data);
    numbers |= static_cast<uint64_t>(heads.row_stride | heads.head_stride);
  }
  return bytes % device::kPieceBytes == 0 && numbers % kPieceOfHead == 0;
}

template <typename Q, typename In, typename Kv, int kNumbers>
void Launch(CudaQueue& queue, const LayerStep& step, const device::Pages& pages,
            const AppendShape& shape) {
  using Threads = HeadThreads<kNumbers>;
  const int num_heads = shape.num_q_heads + 2 * pages.num_kv_heads;
  const dim3 grid(static_cast<unsigned>(step.num_rows),
                  static_cast<unsigned>((num_heads + Threads::kHeads - 1) /
                                        Threads::kHeads));
  LaunchDependent(
      queue, "Append", AppendKernel<Q, In, Kv, kNumbers>,
      {.blocks = grid, .num_threads = Threads::kHeads * Threads::kLanes},
      DeviceRows(step), pages, shape);
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
  const device::Pages pages = DevicePages(cache);
  const bool has_pieces = HasPieces(shape, pages);
  // Bytes: q, k and v read, q, K and V written, once. 2,048 rows of 32 + 2 x 8
  // heads of 128 bfloat16 are 50 MB: 10.5 us at 4.8 TB/s; 10.8 on an H200
  // (`bench ops`), in place of 23.4 with a thread a number.
  WithCudaFloat(inputs.q.dtype, [&](auto q) {
    WithCudaFloat(inputs.k.dtype, [&](auto in) {
      WithCudaFloat(cache.format.k, [&](auto kv) {
        const auto launch =
            has_pieces
                ? Launch<decltype(q), decltype(in), decltype(kv), kPieceOfHead>
                : Launch<decltype(q), decltype(in), decltype(kv), 1>;
        launch(queue, step, pages, shape);
      });
    });
  });
}

}  // namespace winnow
