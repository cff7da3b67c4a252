// k-means' inner loops, over any Lanes: keys are the lanes where centroids are
// scored, channels where they move. Included by kernel files alone.
//
// Keys are transposed once, not with every centroid that they meet, and what a
// key has for its best centroid stays in registers. A score is a sum over
// ascending channels, so that the clusters are those of UnitScores.
#ifndef WINNOW_BACKEND_CPU_ISA_CLUSTER_KERNELS_H_
#define WINNOW_BACKEND_CPU_ISA_CLUSTER_KERNELS_H_

#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// Keys that are scored at a time: two vectors.
inline constexpr int kBlockKeys = 32;

// of.transposed = of.keys, as [blocks of 32 keys, dim, 32].
template <class Lanes>
void TransposeKeys(const ClusterKeys& of) {
  for (int64_t t = 0; t < of.num_keys; t += 16) {
    const float* keys = of.keys + t * of.dim;
    float* to =
        of.transposed + t / kBlockKeys * kBlockKeys * of.dim + t % kBlockKeys;
    for (int c = 0; c < of.dim; c += 16) {
      typename Lanes::F channels[16];
      Lanes::Transpose16(keys + c, of.dim, 16, channels);
      for (int i = 0; i < 16; ++i) {
        Lanes::Store(to + (c + i) * kBlockKeys, channels[i]);
      }
    }
  }
}

// The best centroid so far of each key of a block.
template <class Lanes>
struct BestCentroids {
  typename Lanes::F score[2];
  typename Lanes::F centroid[2];  // its number
};

// Takes in kCount centroids from `first` on.
template <class Lanes, int kCount>
[[gnu::always_inline]] inline void ScoreBlock(const ClusterKeys& of,
                                              const float* keys, int first,
                                              BestCentroids<Lanes>& best) {
  using F = typename Lanes::F;
  F sums[kCount][2];
  for (auto& sum : sums) sum[0] = sum[1] = Lanes::Zero();
  const float* centroids = of.centroids + int64_t{first} * of.dim;
  for (int c = 0; c < of.dim; ++c) {
    const F low = Lanes::Load(keys + c * kBlockKeys);
    const F high = Lanes::Load(keys + c * kBlockKeys + 16);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const F x = Lanes::Set(centroids[i * of.dim + c]);
      sums[i][0] = Lanes::MultiplyAdd(low, x, sums[i][0]);
      sums[i][1] = Lanes::MultiplyAdd(high, x, sums[i][1]);
    }
  }
  for (int i = 0; i < kCount; ++i) {
    const F number = Lanes::Set(static_cast<float>(first + i));
    for (int half = 0; half < 2; ++half) {
      const auto better = Lanes::Greater(sums[i][half], best.score[half]);
      best.score[half] = Lanes::Select(better, sums[i][half], best.score[half]);
      best.centroid[half] = Lanes::Select(better, number, best.centroid[half]);
    }
  }
}

// of.cluster[t] = the centroid of the greatest inner product with key t, ties
// to the lowest. Flops: 2 dim a key and centroid; bytes: in the caches.
template <class Lanes>
void AssignKeys(const ClusterKeys& of) {
  constexpr int kStep = Lanes::kCentroidStep;
  for (int64_t t = 0; t < of.num_keys; t += kBlockKeys) {
    const float* keys = of.transposed + t * of.dim;
    BestCentroids<Lanes> best;
    for (int half = 0; half < 2; ++half) {
      best.score[half] = Lanes::Set(-__builtin_inff());
      best.centroid[half] = Lanes::Zero();
    }
    int i = 0;
    for (; i + kStep <= of.num_clusters; i += kStep) {
      ScoreBlock<Lanes, kStep>(of, keys, i, best);
    }
    for (; i < of.num_clusters; ++i) ScoreBlock<Lanes, 1>(of, keys, i, best);
    float number[kBlockKeys];
    Lanes::Store(number, best.centroid[0]);
    Lanes::Store(number + 16, best.centroid[1]);
    const int64_t left = of.num_keys - t;
    for (int64_t key = 0; key < kBlockKeys && key < left; ++key) {
      of.cluster[t + key] = static_cast<int32_t>(number[key]);
    }
  }
}

// Each centroid that has keys becomes their sum, divided by its length.
template <class Lanes>
void MoveCentroids(const ClusterKeys& of) {
  for (int i = 0; i < of.num_clusters; ++i) of.sizes[i] = 0;
  for (int64_t t = 0; t < of.num_keys; ++t) ++of.sizes[of.cluster[t]];
  for (int i = 0; i < of.num_clusters; ++i) {
    if (of.sizes[i] == 0) continue;
    float* centroid = of.centroids + int64_t{i} * of.dim;
    for (int c = 0; c < of.dim; ++c) centroid[c] = 0;
  }
  for (int64_t t = 0; t < of.num_keys; ++t) {
    float* centroid = of.centroids + int64_t{of.cluster[t]} * of.dim;
    const float* key = of.keys + t * of.dim;
    for (int c = 0; c < of.dim; c += 16) {
      Lanes::Store(centroid + c,
                   Lanes::Add(Lanes::Load(centroid + c), Lanes::Load(key + c)));
    }
  }
  for (int i = 0; i < of.num_clusters; ++i) {
    if (of.sizes[i] == 0) continue;
    float* centroid = of.centroids + int64_t{i} * of.dim;
    float squares = 0;
    for (int c = 0; c < of.dim; ++c) squares += centroid[c] * centroid[c];
    float length = __builtin_sqrtf(squares);
    if (length < kLeastLength) length = kLeastLength;
    for (int c = 0; c < of.dim; ++c) centroid[c] /= length;
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_CLUSTER_KERNELS_H_
