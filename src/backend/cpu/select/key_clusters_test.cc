// The kernels of a set against the truth, on random segments. (That the truth
// is k-means as ClusterIndex says it is cluster_keys_conformance_test.cc.)
#include "backend/cpu/select/key_clusters.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <optional>
#include <random>

#include "backend/cpu/isa/vector_attend.h"

namespace winnow {
namespace {

// One KV head's segments of one request, and what is kept of them.
class Segment {
 public:
  explicit Segment(std::mt19937& random) {
    const auto among = [&random](std::initializer_list<int> of) {
      return *(of.begin() + random() % of.size());
    };
    const int k_dim = among({16, 24, 48, 64, 128});
    program_.block_tokens = among({1, 8, 16, 32});
    program_.rows = {SummaryRows::Kind::kClusters, among({32, 128, 1024}),
                     program_.block_tokens, Dtype::kFloat32};
    program_.index = {among({1, 3, 9}), random() % 2 == 0};
    program_.forced.sink_tokens = among({0, 5, 33});
    program_.estimate = {Amount::Unit::kTokens, 64};
    cache_.format = MakeHeadBlockFormat(Dtype::kBFloat16, k_dim, k_dim);
    cache_.num_kv_heads = 1;
    cache_.kv_block_stride_bytes = cache_.format.head_block_bytes;
    pages_.resize(static_cast<size_t>(program_.rows.tokens / kPageTokens));
    std::iota(pages_.begin(), pages_.end(), 0u);
    std::shuffle(pages_.begin(), pages_.end(), random);
    kv_.resize(pages_.size() *
               static_cast<size_t>(cache_.format.head_block_bytes));
    std::normal_distribution<float> normal;
    // Whole numbers make ties: keys, and so centroids, that are equal. Where
    // nearly all are zero, centroids stay without keys.
    const unsigned ties = among({0, 2, 64});
    auto* numbers = reinterpret_cast<BFloat16*>(kv_.data());
    for (size_t i = 0; i < kv_.size() / sizeof(BFloat16); ++i) {
      numbers[i] = BFloat16(ties > 0 ? static_cast<float>(random() % ties == 0)
                                     : normal(random) + 0.5f);
    }
    cache_.layer_blocks = kv_.data();
    cache_.max_pages = static_cast<int>(pages_.size());
    cache_.page_table = {.first = MakeView(&only_row_, Dtype::kInt32, {1}),
                         .entries = MakeView(pages_.data(), Dtype::kUInt32,
                                             {std::ssize(pages_)})};
    table_.layout = MakeSummaryLayout(program_, k_dim, k_dim);
    table_.segment_stride_bytes = table_.layout.head_bytes;
    table_.segments = {
        .first = MakeView(&only_row_, Dtype::kInt32, {1}),
        .entries = MakeView(&only_segment_, Dtype::kUInt32, {1})};
  }

  // What a set keeps of it; none: the truth.
  std::vector<std::byte> Kept(std::optional<CpuKernels> kernels) {
    std::vector<std::byte> kept(static_cast<size_t>(table_.layout.head_bytes));
    table_.rows = kept.data();
    const VectorKernels of =
        kernels ? VectorKernelsOf(*kernels) : VectorKernels();
    KeyClusters clusters(kernels ? &of : nullptr);
    // What was there before is no part of it.
    for (int i = 0; i < 2; ++i) {
      clusters.Make({.program = program_, .table = table_, .cache = cache_});
    }
    return kept;
  }

 private:
  SelectProgram program_;
  LayerCache cache_;
  SummaryTable table_;
  std::vector<uint32_t> pages_;
  uint32_t only_segment_ = 0;
  int32_t only_row_ = 0;
  std::vector<std::byte> kv_;
};

bool FusesProducts(CpuKernels kernels) {
  return kernels != CpuKernels::kScalar && kernels != CpuKernels::kPortable;
}

// A score is a sum over ascending channels, whose products are rounded, or are
// not: so the sets agree to the bit with the truth, or with each other.
TEST(KeyClustersTest, AreTheSameInEverySet) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    Segment segment(random);
    ASSERT_EQ(segment.Kept(CpuKernels::kPortable), segment.Kept({}))
        << "round " << round;
    std::vector<std::byte> fused;
    for (const CpuKernels kernels : AvailableCpuKernels()) {
      if (!FusesProducts(kernels)) continue;
      const std::vector<std::byte> kept = segment.Kept(kernels);
      if (fused.empty()) fused = kept;
      ASSERT_EQ(kept, fused)
          << "round " << round << " " << CpuKernelsName(kernels);
    }
  }
}

}  // namespace
}  // namespace winnow
