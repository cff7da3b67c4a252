// The kernels that a set has by its Lanes: what the files of sets have alike.
#ifndef WINNOW_BACKEND_CPU_ISA_LANE_KERNELS_H_
#define WINNOW_BACKEND_CPU_ISA_LANE_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "backend/cpu/attend/attend_tile.h"
#include "backend/cpu/attend/attend_unit.h"
#include "backend/cpu/attend/softmax_scores.h"
#include "backend/cpu/isa/blend_values.h"
#include "backend/cpu/isa/cluster_kernels.h"
#include "backend/cpu/isa/float8_numbers.h"
#include "backend/cpu/isa/float_words.h"
#include "backend/cpu/isa/vector_kernels.h"
#include "backend/cpu/isa/widened_words.h"
#include "backend/cpu/select/reduce_heads.h"
#include "backend/cpu/select/score_cut.h"
#include "backend/cpu/select/score_keys.h"

namespace winnow {

// Of float32, all but what turns 16-bit numbers into it. kTileVectors: vectors
// of rows that a prompt's tile has in registers.
template <class Lanes, int kTileVectors>
VectorKernels LaneKernels() {
  using Words = FloatWords<Lanes>;
  VectorKernels kernels;
  kernels.tile_float32 = AttendTile<Lanes, Words, kTileVectors>;
  kernels.unit_float32 = AttendUnit<Lanes, Words>;
  kernels.score_float32 = UnitScores<Lanes, Words>;
  kernels.score_cut = ScoreCut<Lanes>;
  kernels.group_maxima = GroupMaxima<Lanes>;
  kernels.scores_from = ScoresFrom<Lanes>;
  kernels.blend = BlendValues<Lanes>;
  kernels.reduce_heads = ReduceHeads<Lanes>;
  kernels.softmax_scores = SoftmaxScores<Lanes>;
  kernels.transpose_keys = TransposeKeys<Lanes>;
  kernels.assign_keys = AssignKeys<Lanes>;
  kernels.move_centroids = MoveCentroids<Lanes>;
  return kernels;
}

// Those too, and units and scores that widen what they read.
template <class Lanes, int kTileVectors>
VectorKernels WideningKernels() {
  using OfBFloat16 = WidenedWords<Lanes, StoredBFloat16>;
  using OfFloat16 = WidenedWords<Lanes, StoredFloat16>;
  VectorKernels kernels = LaneKernels<Lanes, kTileVectors>();
  kernels.unit_bfloat16 = AttendUnit<Lanes, OfBFloat16>;
  kernels.score_bfloat16 = UnitScores<Lanes, OfBFloat16>;
  kernels.bfloat16_query = OfBFloat16::Stored::kQuery;
  static_assert(OfBFloat16::Stored::kQuery == QueryWords::kHalvesApart);
  kernels.score_widened_bfloat16 = kernels.score_bfloat16;
  kernels.unit_float16 = AttendUnit<Lanes, OfFloat16>;
  kernels.score_float16 = UnitScores<Lanes, OfFloat16>;
  static_assert(OfFloat16::Stored::kQuery == QueryWords::kFloat32);
  kernels.widen_bfloat16 = [](const uint16_t* from, int64_t count, float* to) {
    for (int64_t i = 0; i < count; i += 16) {
      Lanes::Store(to + i,
                   Lanes::Widen(reinterpret_cast<const std::byte*>(from + i)));
    }
  };
  kernels.widen_float16 = [](const uint16_t* from, int64_t count, float* to) {
    for (int64_t i = 0; i < count; i += 16) {
      Lanes::Store(to + i, Lanes::WidenFloat16(
                               reinterpret_cast<const std::byte*>(from + i)));
    }
  };
  kernels.pair_float8 = PairFloat8<Lanes>;
  return kernels;
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_LANE_KERNELS_H_
