#include "backend/cpu/key_clusters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "backend/cpu/float_types.h"
#include "backend/cpu/key_run.h"
#include "backend/cpu/read_workspace.h"

namespace winnow {
namespace {

// Below this a vector has no direction, and stays as it is.
constexpr float kLeastLength = 1e-20f;

void Normalize(std::span<float> x) {
  float squares = 0;
  for (const float number : x) squares += number * number;
  const float length = std::max(std::sqrt(squares), kLeastLength);
  for (float& number : x) number /= length;
}

int64_t WholeTiles(int64_t num_keys) {
  return (num_keys + kTileKeys - 1) / kTileKeys * kTileKeys;
}

}  // namespace

void KeyClusters::Make(const ClusterTask& task) {
  ReadKeys(task);
  if (num_keys_ > 0) {
    if (task.program.index.centered) Center();
    PlaceCentroids();
    for (int i = 0; i < task.program.index.iterations; ++i) {
      Assign();
      MoveCentroids();
    }
    Assign();
  }
  Keep(task);
}

void KeyClusters::ReadKeys(const ClusterTask& task) {
  const SummaryRows& rows = task.program.rows;
  const int64_t begin = task.segment * rows.tokens;
  const int64_t end = begin + rows.tokens;
  const int64_t first =
      std::clamp<int64_t>(task.program.forced.sink_tokens, begin, end);
  k_dim_ = task.cache.format.k_dim;
  num_keys_ = end - first;
  num_clusters_ = rows.tokens / rows.stride;
  keys_.resize(static_cast<size_t>(WholeTiles(num_keys_) * k_dim_));
  best_.resize(static_cast<size_t>(num_keys_));
  cluster_.resize(static_cast<size_t>(num_keys_));
  sizes_.resize(static_cast<size_t>(num_clusters_));
  centroids_.resize(static_cast<size_t>(num_clusters_ * k_dim_));
  raw_.resize(static_cast<size_t>(kUnitRows * WholeTiles(num_keys_)));
  WithFloatType(task.cache.format.k, [&](auto element) {
    using Kv = decltype(element);
    const KeyRun<Kv> keys = {task.cache, task.request, task.head, first,
                             static_cast<int>(num_keys_)};
    float* to = keys_.data();
    keys.ForEach([&to](size_t, float x) { *to++ = x; });
  });
}

void KeyClusters::Center() {
  Channels mean;
  std::fill_n(mean.begin(), k_dim_, 0.0f);
  const auto each = [this](auto&& f) {
    float* key = keys_.data();
    for (int64_t t = 0; t < num_keys_; ++t, key += k_dim_) f(key);
  };
  each([&](const float* key) {
    for (int64_t c = 0; c < k_dim_; ++c) mean[static_cast<size_t>(c)] += key[c];
  });
  for (int64_t c = 0; c < k_dim_; ++c) {
    mean[static_cast<size_t>(c)] /= static_cast<float>(num_keys_);
  }
  each([&](float* key) {
    for (int64_t c = 0; c < k_dim_; ++c) key[c] -= mean[static_cast<size_t>(c)];
  });
}

void KeyClusters::PlaceCentroids() {
  for (int64_t i = 0; i < num_clusters_; ++i) {
    // floor((i + 0.5) m / c), in whole numbers.
    const int64_t key = (2 * i + 1) * num_keys_ / (2 * num_clusters_);
    float* centroid = centroids_.data() + i * k_dim_;
    std::copy_n(keys_.data() + key * k_dim_, k_dim_, centroid);
    Normalize({centroid, static_cast<size_t>(k_dim_)});
  }
}

void KeyClusters::Assign() {
  std::ranges::fill(best_, -std::numeric_limits<float>::infinity());
  std::ranges::fill(cluster_, 0);
  const int64_t stride = WholeTiles(num_keys_);
  for (int64_t first = 0; first < num_clusters_; first += kUnitRows) {
    const int64_t count = std::min<int64_t>(kUnitRows, num_clusters_ - first);
    ScoreCentroids(first, count);
    for (int64_t i = 0; i < count; ++i) {
      const float* scores = raw_.data() + i * stride;
      const auto cluster = static_cast<int32_t>(first + i);
      for (int64_t t = 0; t < num_keys_; ++t) {
        const auto at = static_cast<size_t>(t);
        const bool better = scores[t] > best_[at];
        best_[at] = better ? scores[t] : best_[at];
        cluster_[at] = better ? cluster : cluster_[at];
      }
    }
  }
}

void KeyClusters::ScoreCentroids(int64_t first, int64_t count) {
  const int64_t stride = WholeTiles(num_keys_);
  const float* centroids = centroids_.data() + first * k_dim_;
  if (kernels_ == nullptr || k_dim_ % 16 != 0 || k_dim_ > kMaxReadDim) {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t t = 0; t < num_keys_; ++t) {
        float sum = 0;
        for (int64_t c = 0; c < k_dim_; ++c) {
          sum += centroids[i * k_dim_ + c] *
                 keys_[static_cast<size_t>(t * k_dim_ + c)];
        }
        raw_[static_cast<size_t>(i * stride + t)] = sum;
      }
    }
    return;
  }
  // Attention's own kernel: the segment is a page table's worth of keys.
  tile_.resize(
      static_cast<size_t>(kUnitRows * kTileKeys + k_dim_ * kTilePageTokens));
  UnitRows rows;
  rows.num_rows = static_cast<int>(count);
  rows.q = centroids;
  rows.scores = tile_.data();
  rows.transposed_k = tile_.data() + kUnitRows * kTileKeys;
  for (int64_t t = 0; t < num_keys_; t += kTileKeys) {
    TileKeys keys;
    keys.k_dim = keys.k_stride = static_cast<int>(k_dim_);
    keys.end = static_cast<int>(std::min<int64_t>(kTileKeys, num_keys_ - t));
    for (int page = 0; page * kTilePageTokens < keys.end; ++page) {
      keys.k[page] = keys.next_k[page] = reinterpret_cast<const std::byte*>(
          keys_.data() + (t + page * kTilePageTokens) * k_dim_);
    }
    kernels_->score_float32(keys, rows);
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(rows.scores + i * kTileKeys, keys.end,
                  raw_.data() + i * stride + t);
    }
  }
}

void KeyClusters::MoveCentroids() {
  std::ranges::fill(sizes_, 0);
  for (const int32_t cluster : cluster_) ++sizes_[static_cast<size_t>(cluster)];
  for (int64_t i = 0; i < num_clusters_; ++i) {
    if (sizes_[static_cast<size_t>(i)] == 0) continue;
    std::fill_n(centroids_.data() + i * k_dim_, k_dim_, 0.0f);
  }
  for (int64_t t = 0; t < num_keys_; ++t) {
    float* centroid =
        centroids_.data() + cluster_[static_cast<size_t>(t)] * k_dim_;
    const float* key = keys_.data() + t * k_dim_;
    for (int64_t c = 0; c < k_dim_; ++c) centroid[c] += key[c];
  }
  for (int64_t i = 0; i < num_clusters_; ++i) {
    if (sizes_[static_cast<size_t>(i)] == 0) continue;
    Normalize({centroids_.data() + i * k_dim_, static_cast<size_t>(k_dim_)});
  }
}

void KeyClusters::Keep(const ClusterTask& task) {
  const SummaryRows& rows = task.program.rows;
  const ClusterSegment segment =
      ClusterSegmentOf(task.table, rows, task.request, task.head, task.segment);
  const int64_t first = rows.tokens - num_keys_;
  std::ranges::fill(sizes_, 0);
  for (const int32_t cluster : cluster_) ++sizes_[static_cast<size_t>(cluster)];
  uint32_t end = 0;
  for (int64_t i = 0; i < num_clusters_; ++i) {
    segment.ends[i] = end;  // for now its begin
    end += static_cast<uint32_t>(sizes_[static_cast<size_t>(i)]);
  }
  for (int64_t t = 0; t < num_keys_; ++t) {
    const auto cluster = static_cast<size_t>(cluster_[static_cast<size_t>(t)]);
    segment.members[segment.ends[cluster]++] = static_cast<uint16_t>(first + t);
  }
  WriteClusterMeans(task);
}

}  // namespace winnow
