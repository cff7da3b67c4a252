// Numbers that a thread loads and stores at once.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_PIECE_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_PIECE_CUH_

#include <cuda_runtime.h>

namespace winnow::device {

inline constexpr int kPieceBytes = 16;  // the most that one instruction moves

// As many numbers as fill kPieceBytes.
template <typename T>
inline constexpr int kPieceNumbers = kPieceBytes / int{sizeof(T)};

// What the address of kNumbers numbers should be a multiple of.
template <typename T, int kNumbers>
inline constexpr int kPieceAlignment =
    kNumbers * int{sizeof(T)} < kPieceBytes ? kNumbers * int{sizeof(T)}
                                            : kPieceBytes;

// kNumbers numbers, a power of two, one after the other.
template <typename T, int kNumbers>
struct alignas(kPieceAlignment<T, kNumbers>) Piece {
  T numbers[kNumbers];

  static __device__ Piece Load(const T* from) {
    return *reinterpret_cast<const Piece*>(from);
  }
  __device__ void Store(T* to) const { *reinterpret_cast<Piece*>(to) = *this; }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_RUNTIME_PIECE_CUH_
