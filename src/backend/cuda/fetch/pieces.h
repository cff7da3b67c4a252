// Whether rows can be moved some numbers at once.
#ifndef WINNOW_BACKEND_CUDA_FETCH_PIECES_H_
#define WINNOW_BACKEND_CUDA_FETCH_PIECES_H_

#include <cstdint>

#include "backend/cuda/device/runtime/piece.cuh"
#include "tensor/view.h"

namespace winnow {

// Whether every row of view [rows, size] is whole device::Piece<T, kNumbers>.
// REQUIRES: T fits view.dtype.
template <typename T, int kNumbers>
bool HasPieces(const View& view) {
  return reinterpret_cast<uintptr_t>(view.data) %
                 device::kPieceAlignment<T, kNumbers> ==
             0 &&
         view.dim(1) % kNumbers == 0 &&
         (view.dim(0) <= 1 || view.stride[0] % kNumbers == 0);
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_FETCH_PIECES_H_
