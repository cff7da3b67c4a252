// The keys of a summary row, taken in by a block.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_SUMMARY_KEYS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_SUMMARY_KEYS_CUH_

#include "backend/cuda/device/rows/step_rows.cuh"
#include "backend/cuda/device/runtime/element.cuh"

namespace winnow::device {

// How a block's threads share a row's keys: as slices of consecutive tokens,
// and in a slice a thread a piece of kElements channels. The cut depends on
// tokens and k_dim alone, so that a row's bits do too. A slice's results stand
// in shared memory until they are joined, in the slices' order.
template <typename Kv, int kElements>
struct KeySlices {
  struct alignas(sizeof(Kv) * kElements) Piece {
    Kv values[kElements];
  };
  struct Floats {
    float values[kElements];
  };

  const Pages& pages;
  int request, head;
  int first_token, num_tokens;
  int num_pieces;  // of a key
  int num_slices;
  int slice_tokens;

  __device__ KeySlices(const Pages& of, int of_request, int of_head, int first,
                       int count)
      : pages(of),
        request(of_request),
        head(of_head),
        first_token(first),
        num_tokens(count),
        num_pieces(of.k_dim / kElements) {
    const int most = static_cast<int>(blockDim.x) / num_pieces;
    num_slices = max(1, min(most, num_tokens));
    slice_tokens = (num_tokens + num_slices - 1) / num_slices;
  }

  // f(piece, tokens of the slice [begin, end), slice) for what this thread has.
  // More pieces than threads take several rounds.
  template <typename F>
  __device__ void ForEach(F&& f) const {
    const int of_slices = num_pieces * num_slices;
    for (int i = threadIdx.x; i < of_slices; i += blockDim.x) {
      const int slice = i / num_pieces;
      const int begin = min(slice * slice_tokens, num_tokens);
      const int end = min(begin + slice_tokens, num_tokens);
      f(i % num_pieces, begin, end, slice);
    }
  }

  // f(channels of a key as floats), for the slice's tokens in order.
  template <typename F>
  __device__ void ForEachKey(int piece, int begin, int end, F&& f) const {
    constexpr int kTokensAPage = 32;
#pragma unroll 4
    for (int token = first_token + begin; token < first_token + end; ++token) {
      const std::byte* slice = pages.Slice(request, token / kTokensAPage, head);
      const Piece* keys = reinterpret_cast<const Piece*>(slice) +
                          token % kTokensAPage * num_pieces;
      const Piece key = keys[piece];
      Floats channels;
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        channels.values[i] = ToFloat(key.values[i]);
      }
      f(channels.values);
    }
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_SUMMARY_KEYS_CUH_
