// KeyClusters: k-means over the keys of one segment, by a block.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_KEY_CLUSTERS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_KEY_CLUSTERS_CUH_

#include "backend/cuda/device/rows/row_sum.cuh"
#include "backend/cuda/device/rows/step_rows.cuh"
#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/device/select/summary_rows.cuh"

namespace winnow::device {

constexpr int kClusterThreads = 256;
constexpr int kClusterWarps = kClusterThreads / 32;
// A block scores so many keys by so many centroids at a time, a thread 4 x 4 of
// them, so many channels at a time.
constexpr int kScoredKeys = 64;
constexpr int kScoredCentroids = 64;
constexpr int kScoredChannels = 16;
constexpr int kEachScored = 4;
// A warp sums so many channels at a time.
constexpr int kSummedChannels = 128;
// As in backend/cpu/isa/vector_kernels.h: a centroid is divided by no less.
constexpr float kLeastLength = 1e-20f;

// What the threads of a block tell each other.
struct ClusterMemory {
  // Rows of four more, so that threads that store channels of one key hit
  // different banks.
  float keys[kScoredChannels][kScoredKeys + 4];
  float centroids[kScoredChannels][kScoredCentroids + 4];
};
// The same, as far as its size is the launch's: a mean, a part of it a warp,
// and a number a key.
inline int64_t ClusterDynamicBytes(int64_t k_dim, int64_t num_keys) {
  return 4 * k_dim * (1 + kClusterWarps) + 2 * num_keys;
}

// One segment of a request and KV head.
struct ClusteredSegment {
  int request, head;
  int number;       // of the request's segments
  int first_token;  // sinks left out
  int num_keys;
};

// How a program's clusters are made, and where they go.
struct ClusterRule {
  int segment_tokens;
  int num_clusters;  // of a segment
  int sink_tokens;
  int iterations;
  bool centered;
  bool keeps_values;
  FloatType row_type;
  int row_size;  // bytes of a number
  int v_stride;  // from one token's value to the next one's
};

// All threads of the block call each method. Centroids lie in global memory
// that is the block's own.
template <typename Kv>
class KeyClusters {
 public:
  __device__ KeyClusters(const Pages& pages, const ClusterRule& rule,
                         const ClusteredSegment& segment, ClusterMemory& memory,
                         float* dynamic,    // ClusterDynamicBytes
                         float* centroids)  // f32 [num_clusters, k_dim]
      : pages_(pages),
        rule_(rule),
        segment_(segment),
        memory_(memory),
        k_dim_(pages.k_dim),
        mean_(dynamic),
        partial_(dynamic + pages.k_dim),
        cluster_(reinterpret_cast<uint16_t*>(partial_ +
                                             kClusterWarps * pages.k_dim)),
        centroids_(centroids),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32) {}

  // Says whose each key is, as ClusterIndex says
  // (backend/contract/select_program.h).
  __device__ void Make() {
    if (segment_.num_keys == 0) return;
    FindMean();
    PlaceCentroids();
    for (int i = 0; i < rule_.iterations; ++i) {
      Assign();
      MoveCentroids();
    }
    Assign();
  }

  // Writes which tokens the clusters have, and their means.
  __device__ void Keep(const Summaries& to) {
    const Summaries::ClusterPlace first = to.Place(
        segment_.request, segment_.head, segment_.number * rule_.num_clusters);
    for (int i = warp_; i < rule_.num_clusters; i += kClusterWarps) {
      int count = 0;
      ForEachOf(i, [&](uint32_t members, int) { count += __popc(members); });
      if (lane_ == 0) to.Ends(first)[i] = static_cast<uint32_t>(count);
    }
    __syncthreads();
    if (warp_ == 0) SumEnds(to.Ends(first));
    __syncthreads();
    uint16_t* const members = to.Members(first);
    const uint32_t* const ends = to.Ends(first);
    const int num_sinks =
        segment_.first_token - segment_.number * rule_.segment_tokens;
    for (int i = warp_; i < rule_.num_clusters; i += kClusterWarps) {
      uint32_t at = i == 0 ? 0 : ends[i - 1];
      const int count = static_cast<int>(ends[i] - at);
      ForEachOf(i, [&](uint32_t of_lanes, int key) {
        if ((of_lanes >> lane_ & 1) != 0) {
          members[at + __popc(of_lanes & ((1u << lane_) - 1))] =
              static_cast<uint16_t>(num_sinks + key + lane_);
        }
        at += __popc(of_lanes);
      });
      const Summaries::ClusterPlace place = {first.segment, first.index + i};
      KeepMean(i, count, k_dim_,
               place.segment + to.levels[0].offset_bytes +
                   int64_t{place.index} * to.levels[0].row_bytes,
               [this](int key) { return Key(key); });
      if (!rule_.keeps_values) continue;
      KeepMean(i, count, pages_.v_dim,
               to.Value(place, int64_t{pages_.v_dim} * rule_.row_size),
               [this](int key) { return Value(key); });
    }
  }

 private:
  static constexpr int kTokensAPage = 32;
  static constexpr int kEach = kSummedChannels / 32;  // channels a lane
  static constexpr int kAtOnce = 4;  // members whose loads are under way

  __device__ const std::byte* Slice(int token) const {
    return pages_.Slice(segment_.request, token / kTokensAPage, segment_.head);
  }
  __device__ const Kv* Key(int key) const {
    const int token = segment_.first_token + key;
    return reinterpret_cast<const Kv*>(Slice(token)) +
           token % kTokensAPage * k_dim_;
  }
  __device__ const Kv* Value(int key) const {
    const int token = segment_.first_token + key;
    return reinterpret_cast<const Kv*>(Slice(token) + pages_.v_offset_bytes) +
           token % kTokensAPage * rule_.v_stride;
  }
  // A key's number as it is clustered.
  __device__ float Moved(const Kv* key, int c) const {
    return ToFloat(key[c]) - mean_[c];
  }

  // The keys' mean, or zeros: warps have slices of keys, whose sums are added
  // in their order.
  __device__ void FindMean() {
    const int each = (segment_.num_keys + kClusterWarps - 1) / kClusterWarps;
    const int begin = min(warp_ * each, segment_.num_keys);
    const int end =
        rule_.centered ? min(begin + each, segment_.num_keys) : begin;
    for (int c = lane_; c < k_dim_; c += 32) {
      float sum = 0;
#pragma unroll 8
      for (int key = begin; key < end; ++key) sum += ToFloat(Key(key)[c]);
      partial_[warp_ * k_dim_ + c] = sum;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < k_dim_; c += kClusterThreads) {
      float sum = 0;
      for (int i = 0; i < kClusterWarps; ++i) {
        sum += partial_[i * k_dim_ + c];
      }
      mean_[c] = sum / static_cast<float>(segment_.num_keys);
    }
    __syncthreads();
  }

  // centroid = centroid / its length, of which the lanes have the squares.
  __device__ void Normalize(float* centroid, float squares) const {
    const float length = fmaxf(sqrtf(WarpSum(squares)), kLeastLength);
    for (int c = lane_; c < k_dim_; c += 32) centroid[c] /= length;
  }

  __device__ void PlaceCentroids() {
    for (int i = warp_; i < rule_.num_clusters; i += kClusterWarps) {
      // floor((i + 0.5) m / c), in whole numbers.
      const auto place =
          static_cast<int>((2 * int64_t{i} + 1) * segment_.num_keys /
                           (2 * int64_t{rule_.num_clusters}));
      const Kv* key = Key(place);
      float* centroid = centroids_ + int64_t{i} * k_dim_;
      float squares = 0;
      for (int c = lane_; c < k_dim_; c += 32) {
        const float number = Moved(key, c);
        centroid[c] = number;
        squares += number * number;
      }
      Normalize(centroid, squares);
    }
    __syncthreads();
  }

  // A thread's best centroid so far of each of its keys.
  struct Best {
    float score = -INFINITY;
    int centroid = 0x7fffffff;

    __device__ void Take(float of, int index) {
      if (of > score || (of == score && index < centroid)) {
        score = of;
        centroid = index;
      }
    }
  };

  // Each key goes to the centroid of greatest inner product, ties to the
  // lowest. Sums are over ascending channels.
  __device__ void Assign() {
    const int thread = static_cast<int>(threadIdx.x);
    const int row = thread / 16, column = thread % 16;
    for (int first = 0; first < segment_.num_keys; first += kScoredKeys) {
      Best best[kEachScored];
      // This thread's key where they are loaded.
      const int mine = first + thread / 4;
      const Kv* key = mine < segment_.num_keys ? Key(mine) : nullptr;
      for (int from = 0; from < rule_.num_clusters; from += kScoredCentroids) {
        float scores[kEachScored][kEachScored] = {};
        Score(key, from, scores);
#pragma unroll
        for (int j = 0; j < kEachScored; ++j) {
          const int centroid = from + column * kEachScored + j;
          if (centroid >= rule_.num_clusters) break;
#pragma unroll
          for (int i = 0; i < kEachScored; ++i) {
            if (scores[i][j] > best[i].score)
              best[i] = {scores[i][j], centroid};
          }
        }
      }
      // The sixteen threads of a row have different centroids.
#pragma unroll
      for (int i = 0; i < kEachScored; ++i) {
        for (int step = 8; step >= 1; step /= 2) {
          const float score = __shfl_xor_sync(~0u, best[i].score, step);
          best[i].Take(score, __shfl_xor_sync(~0u, best[i].centroid, step));
        }
        const int of_row = first + row * kEachScored + i;
        if (column == 0 && of_row < segment_.num_keys) {
          // Where every score is NaN or -infinity, the first.
          cluster_[of_row] = static_cast<uint16_t>(
              best[i].score == -INFINITY ? 0 : best[i].centroid);
        }
      }
    }
    __syncthreads();
  }

  // scores[i][j] of key 4 * row + i of the tile and centroid
  // from + 4 * column + j. `key`: of this thread's loads, or null.
  __device__ void Score(const Kv* key, int from,
                        float (&scores)[kEachScored][kEachScored]) {
    const int thread = static_cast<int>(threadIdx.x);
    const int row = thread / 16, column = thread % 16;
    // Four threads load sixteen channels of a key and of a centroid.
    const int loaded = thread / 4, channel = thread % 4 * 4;
    const float* centroid =
        from + loaded < rule_.num_clusters
            ? centroids_ + static_cast<int64_t>(from + loaded) * k_dim_
            : nullptr;
    for (int step = 0; step < k_dim_; step += kScoredChannels) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int c = step + channel + i;
        const bool is_in = c < k_dim_;
        memory_.keys[channel + i][loaded] =
            is_in && key != nullptr ? Moved(key, c) : 0.0f;
        memory_.centroids[channel + i][loaded] =
            is_in && centroid != nullptr ? centroid[c] : 0.0f;
      }
      __syncthreads();
#pragma unroll
      for (int c = 0; c < kScoredChannels; ++c) {
        const float4 of_keys = *reinterpret_cast<const float4*>(
            &memory_.keys[c][row * kEachScored]);
        const float4 of_centroids = *reinterpret_cast<const float4*>(
            &memory_.centroids[c][column * kEachScored]);
        const float a[] = {of_keys.x, of_keys.y, of_keys.z, of_keys.w};
        const float b[] = {of_centroids.x, of_centroids.y, of_centroids.z,
                           of_centroids.w};
#pragma unroll
        for (int i = 0; i < kEachScored; ++i) {
#pragma unroll
          for (int j = 0; j < kEachScored; ++j) {
            scores[i][j] = __fmaf_rn(a[i], b[j], scores[i][j]);
          }
        }
      }
      __syncthreads();
    }
  }

  // f(lanes' keys that are the cluster's as bits, first of 32 keys), ascending.
  // By a warp.
  template <typename F>
  __device__ void ForEachOf(int cluster, F&& f) const {
    for (int key = 0; key < segment_.num_keys; key += 32) {
      const int mine = key + lane_;
      const bool is_in = mine < segment_.num_keys && cluster_[mine] == cluster;
      const unsigned members = __ballot_sync(~0u, is_in);
      if (members != 0) f(members, key);
    }
  }

  // sums[i] = those of the cluster's keys of f(key, channel), lane l has
  // channels first + l + 32 i below `dim`: in the keys' order. By a warp.
  // Returns how many keys it has.
  template <typename F>
  __device__ int SumKeys(int cluster, int first, int dim, F&& f,
                         float (&sums)[kEach]) const {
    int count = 0;
    ForEachOf(cluster, [&](uint32_t members, int key) {
      count += __popc(members);
      while (members != 0) {
        float numbers[kAtOnce][kEach] = {};
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
          if (members == 0) continue;
          const int of = key + __ffs(members) - 1;
          members &= members - 1;
#pragma unroll
          for (int i = 0; i < kEach; ++i) {
            const int c = first + lane_ + 32 * i;
            if (c < dim) numbers[k][i] = f(of, c);
          }
        }
        // What is behind the last key adds nothing: a sum is never -0.
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
#pragma unroll
          for (int i = 0; i < kEach; ++i) sums[i] += numbers[k][i];
        }
      }
    });
    return count;
  }

  // A centroid becomes the sum of its keys, divided by its length; one without
  // keys stays.
  __device__ void MoveCentroids() {
    for (int cluster = warp_; cluster < rule_.num_clusters;
         cluster += kClusterWarps) {
      float* centroid = centroids_ + int64_t{cluster} * k_dim_;
      float squares = 0;
      int count = 0;
      for (int first = 0; first < k_dim_; first += kSummedChannels) {
        float sums[kEach] = {};
        count = SumKeys(
            cluster, first, k_dim_,
            [this](int key, int c) { return Moved(Key(key), c); }, sums);
        if (count == 0) break;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          const int c = first + lane_ + 32 * i;
          if (c < k_dim_) centroid[c] = sums[i];
          squares += sums[i] * sums[i];
        }
      }
      if (count > 0) Normalize(centroid, squares);
    }
    __syncthreads();
  }

  // ends[i] = the sum of ends up to i, by a warp.
  __device__ void SumEnds(uint32_t* ends) const {
    int before = 0;
    for (int first = 0; first < rule_.num_clusters; first += 32) {
      const int i = first + lane_;
      int sum = i < rule_.num_clusters ? static_cast<int>(ends[i]) : 0;
      for (int step = 1; step < 32; step *= 2) {
        const int lower = __shfl_up_sync(~0u, sum, step);
        if (lane_ >= step) sum += lower;
      }
      if (i < rule_.num_clusters) ends[i] = static_cast<uint32_t>(before + sum);
      before += __shfl_sync(~0u, sum, 31);
    }
  }

  // A cluster's mean over its keys of at(key)[channel], rounded once; zeros
  // where it has none. By a warp.
  template <typename At>
  __device__ void KeepMean(int cluster, int count, int dim, std::byte* to,
                           At&& at) const {
    const auto divisor = static_cast<float>(max(count, 1));
    for (int first = 0; first < dim; first += kSummedChannels) {
      float sums[kEach] = {};
      if (count > 0) {
        SumKeys(
            cluster, first, dim,
            [&](int key, int c) { return ToFloat(at(key)[c]); }, sums);
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int c = first + lane_ + 32 * i;
        if (c < dim) StoreFloat(to, rule_.row_type, c, sums[i] / divisor);
      }
    }
  }

  const Pages& pages_;
  const ClusterRule& rule_;
  const ClusteredSegment& segment_;
  ClusterMemory& memory_;
  const int k_dim_;
  float* const mean_;        // f32 [k_dim]: taken from every key
  float* const partial_;     // f32 [warps, k_dim]
  uint16_t* const cluster_;  // u16 [keys]: whose it is
  float* const centroids_;
  const int lane_, warp_;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_KEY_CLUSTERS_CUH_
