#include "backend/cuda/emulated/instructions.h"

#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "backend/cuda/emulated/cluster.h"
#include "base/check.h"
#include "tensor/dtype.h"

namespace winnow::emulated::ptx {
namespace {

constexpr int kRows = 16, kColumns = 8, kInner = 16;

template <typename T>
float Half(uint32_t word, int i) {
  T number;
  number.bits = static_cast<uint16_t>(word >> (16 * i));
  return static_cast<float>(number);
}

struct MatrixOperands {
  ToFloats d;
  Words a;
  WordPair b;
  Floats c;
};

// Which lane has which element: PTX ISA, "Matrix fragments for mma.m16n8k16".
// g = lane / 4, t = lane % 4; the two halves of a word are neighbours.
template <typename T>
void Multiply(void* const* lanes) {
  float a[kRows][kInner], b[kInner][kColumns], sums[kRows][kColumns];
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    const auto& of = *static_cast<const MatrixOperands*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 8; ++i) {
      a[g + i / 2 % 2 * 8][2 * t + i % 2 + i / 4 * 8] =
          Half<T>(of.a[i / 2], i % 2);
    }
    for (int i = 0; i < 4; ++i) {
      b[2 * t + i % 2 + i / 2 * 8][g] = Half<T>(of.b[i / 2], i % 2);
      sums[g + i / 2 * 8][2 * t + i % 2] = of.c[i];
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int k = 0; k < kInner; ++k) {
      for (int column = 0; column < kColumns; ++column) {
        sums[row][column] += a[row][k] * b[k][column];
      }
    }
  }
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    const auto& of = *static_cast<const MatrixOperands*>(lanes[lane]);
    for (int i = 0; i < 4; ++i) {
      *of.d[i] = sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    }
  }
}

// Words of an 8 x 8 matrix of 16-bit numbers: lane l has row l / 4, columns
// 2 (l % 4) and the next.
using Matrix = std::array<std::array<uint16_t, 8>, 8>;
uint32_t WordOf(const Matrix& matrix, int lane, bool transposed) {
  const auto row = static_cast<size_t>(lane / 4);
  const auto column = static_cast<size_t>(lane % 4 * 2);
  const uint32_t low = transposed ? matrix[column][row] : matrix[row][column];
  const uint32_t high =
      transposed ? matrix[column + 1][row] : matrix[row][column + 1];
  return low | high << 16;
}

struct LoadOperands {
  ToWords to;
  const std::byte* row;  // 16 bytes
};

// Lane l names row l % 8 of matrix l / 8.
template <bool kTransposed>
void LoadMatrices(void* const* lanes) {
  for (int i = 0; i < 4; ++i) {
    Matrix matrix;
    for (int row = 0; row < 8; ++row) {
      std::memcpy(matrix[static_cast<size_t>(row)].data(),
                  static_cast<const LoadOperands*>(lanes[8 * i + row])->row,
                  16);
    }
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      *static_cast<const LoadOperands*>(lanes[lane])->to[i] =
          WordOf(matrix, lane, kTransposed);
    }
  }
}

struct Transposing {
  uint32_t* to;
  uint32_t word;
};

}  // namespace

void mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(ToFloats d, Words a,
                                                         WordPair b, Floats c) {
  MatrixOperands mine = {d, a, b, c};
  Running().MeetWarp("mma.bf16", &mine, Multiply<BFloat16>);
}
void mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(ToFloats d, Words a,
                                                       WordPair b, Floats c) {
  MatrixOperands mine = {d, a, b, c};
  Running().MeetWarp("mma.f16", &mine, Multiply<Float16>);
}

void ldmatrix_sync_aligned_m8n8_x4_shared_b16(ToWords to, uint32_t address) {
  LoadOperands mine = {to, Running().SharedAt(address, 16)};
  Running().MeetWarp("ldmatrix", &mine, LoadMatrices<false>);
}
void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(ToWords to,
                                                    uint32_t address) {
  LoadOperands mine = {to, Running().SharedAt(address, 16)};
  Running().MeetWarp("ldmatrix.trans", &mine, LoadMatrices<true>);
}

void movmatrix_sync_aligned_m8n8_trans_b16(uint32_t* to, uint32_t matrix) {
  Transposing mine = {to, matrix};
  Running().MeetWarp("movmatrix", &mine, [](void* const* lanes) {
    Matrix rows;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const uint32_t word = static_cast<const Transposing*>(lanes[lane])->word;
      const auto row = static_cast<size_t>(lane / 4);
      const auto column = static_cast<size_t>(lane % 4 * 2);
      rows[row][column] = static_cast<uint16_t>(word);
      rows[row][column + 1] = static_cast<uint16_t>(word >> 16);
    }
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      *static_cast<const Transposing*>(lanes[lane])->to =
          WordOf(rows, lane, true);
    }
  });
}

void cp_async_cg_shared_global(uint32_t to, const void* from, int num_bytes,
                               uint32_t num_bytes_read) {
  CHECK(num_bytes == 16 && num_bytes_read <= 16 &&
            reinterpret_cast<uintptr_t>(from) % 16 == 0,
        "num_bytes={} of which {} read, from {}", num_bytes, num_bytes_read,
        from);
  Cluster& cluster = Running();
  cluster.copies().Start({cluster.SharedAt(to, 16), from, num_bytes_read},
                         cluster.DrawHalf());
}
void cp_async_commit_group() { Running().copies().Commit(); }
void cp_async_wait_group(int num_pending) {
  Running().copies().WaitForAllBut(static_cast<size_t>(num_pending));
}

void cvt_rn_bf16x2_f32(uint32_t* to, float high, float low) {
  *to = BFloat16(low).bits | static_cast<uint32_t>(BFloat16(high).bits) << 16;
}
void ex2_approx_ftz_f32(float* to, float x) {
  const float power = std::exp2(std::fabs(x) < FLT_MIN ? 0.0f : x);
  *to = power < FLT_MIN ? 0.0f : power;
}

}  // namespace winnow::emulated::ptx
