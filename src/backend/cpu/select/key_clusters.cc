#include "backend/cpu/select/key_clusters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "backend/cpu/isa/float_types.h"
#include "backend/cpu/select/key_run.h"

namespace winnow {
namespace {

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
    if (IsVector()) kernels_->transpose_keys(Keys());
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
  cluster_.resize(static_cast<size_t>(num_keys_));
  sizes_.resize(static_cast<size_t>(num_clusters_));
  centroids_.resize(static_cast<size_t>(num_clusters_ * k_dim_));
  transposed_.resize(keys_.size());
  WithFloatType(task.cache.format.k, [&](auto element) {
    using Kv = decltype(element);
    const KeyRun<Kv> keys = {task.cache, task.request, task.head, first,
                             static_cast<int>(num_keys_)};
    float* to = keys_.data();
    for (int64_t token = first; token < end;) {
      const int64_t in_page =
          std::min(end - token, kPageTokens - token % kPageTokens);
      const Kv* from = keys.Key(token);
      for (int64_t i = 0; i < in_page * k_dim_; ++i) {
        *to++ = static_cast<float>(from[i]);
      }
      token += in_page;
    }
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

bool KeyClusters::IsVector() const {
  return kernels_ != nullptr && k_dim_ % 16 == 0;
}

ClusterKeys KeyClusters::Keys() {
  return {.keys = keys_.data(),
          .transposed = transposed_.data(),
          .num_keys = num_keys_,
          .dim = static_cast<int>(k_dim_),
          .centroids = centroids_.data(),
          .num_clusters = static_cast<int>(num_clusters_),
          .cluster = cluster_.data(),
          .sizes = sizes_.data()};
}

void KeyClusters::Assign() {
  if (IsVector()) return kernels_->assign_keys(Keys());
  for (int64_t t = 0; t < num_keys_; ++t) {
    const float* key = keys_.data() + t * k_dim_;
    float best = -std::numeric_limits<float>::infinity();
    int32_t& cluster = cluster_[static_cast<size_t>(t)] = 0;
    for (int64_t i = 0; i < num_clusters_; ++i) {
      const float* centroid = centroids_.data() + i * k_dim_;
      float score = 0;
      for (int64_t c = 0; c < k_dim_; ++c) score += centroid[c] * key[c];
      if (!(score > best)) continue;
      best = score;
      cluster = static_cast<int32_t>(i);
    }
  }
}

void KeyClusters::MoveCentroids() {
  if (IsVector()) return kernels_->move_centroids(Keys());
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
