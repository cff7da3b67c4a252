// FewRowsNorm: RmsNorm by every block that multiplies the rows.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_LINEAR_FEW_ROWS_NORM_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_LINEAR_FEW_ROWS_NORM_CUH_

#include "backend/cuda/device/rows/row_sum.cuh"
#include "backend/cuda/device/runtime/element.cuh"

namespace winnow::device {

// The bits are those of rms_norm.cu's block a row, whose threads are twice as
// many: a thread here has the numbers of two.
constexpr int kNormThreads = 256;
constexpr int kNormHeld = 26;  // numbers of a row that a thread holds
constexpr int kMaxNormRow = kNormHeld * kNormThreads;
// In shared memory a row's successor begins this many numbers behind its end:
// lanes that load pieces of two rows then use different banks.
constexpr int kNormRowGap = 32;

// x [rows, size] f32 -> out [rows, size], and the same in shared memory.
template <typename T>
struct FewRowsNorm {
  struct Memory {
    float of_warps[2][2 * kNormThreads / 32];
  };
  const float* x;
  const T* weight;
  T* out;
  int64_t x_stride, out_stride;
  float epsilon;

  __host__ __device__ static int RowStride(int size) {
    return size + kNormRowGap;
  }

  // Weights need not wait for what is ahead of the kernel. They stand where the
  // last row will: a thread writes the numbers whose weights it alone reads.
  __device__ void LoadWeights(int rows, int size, T* to) const {
    to += (rows - 1) * RowStride(size);
    for (int i = threadIdx.x; i < size; i += kNormThreads) to[i] = weight[i];
  }

  // REQUIRES: LoadWeights with the same arguments. By all threads of the block;
  // ends with a __syncthreads(). One block of the kernel also writes `out`.
  __device__ void Run(int rows, int size, bool writes_out, T* to,
                      Memory& memory) const {
    const T* weights = to + (rows - 1) * RowStride(size);
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
      const float* from = x + row * x_stride;
      float values[kNormHeld];
#pragma unroll
      for (int k = 0; k < kNormHeld; ++k) {
        const int i = static_cast<int>(threadIdx.x) + k * kNormThreads;
        values[k] = i < size ? __ldcg(from + i) : 0.0f;
      }
      const float factor = Factor(values, size, memory.of_warps[row % 2]);
      T* normed = to + row * RowStride(size);
#pragma unroll
      for (int k = 0; k < kNormHeld; ++k) {
        const int i = static_cast<int>(threadIdx.x) + k * kNormThreads;
        if (i >= size) break;
        const T value = FromFloat<T>(values[k] * factor * ToFloat(weights[i]));
        normed[i] = value;
        if (writes_out) out[row * out_stride + i] = value;
      }
    }
    __syncthreads();
  }

 private:
  // 1 / rms of a row. `of_warps` is free again after the next call's barrier,
  // which is of the other row's memory.
  __device__ float Factor(const float (&values)[kNormHeld], int size,
                          float* of_warps) const {
    float sums[2] = {};
#pragma unroll
    for (int k = 0; k < kNormHeld; ++k) {
      sums[k % 2] = fmaf(values[k], values[k], sums[k % 2]);
    }
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    constexpr unsigned kWarps = kNormThreads / 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = WarpSum(sums[half]);
      if (lane == 0) of_warps[half * kWarps + warp] = sum;
    }
    __syncthreads();
    const float sum = WarpSum(lane < 2 * kWarps ? of_warps[lane] : 0.0f);
    const float mean = sum / static_cast<float>(size);
    return 1.0f / sqrtf(mean + epsilon);
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_LINEAR_FEW_ROWS_NORM_CUH_
