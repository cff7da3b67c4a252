// KeyClusters: k-means over the keys of one segment.
#ifndef WINNOW_BACKEND_CPU_SELECT_KEY_CLUSTERS_H_
#define WINNOW_BACKEND_CPU_SELECT_KEY_CLUSTERS_H_

#include <vector>

#include "backend/cpu/isa/vector_kernels.h"
#include "backend/cpu/select/cluster_means.h"

namespace winnow {

// Owns scratch that grows to the longest segment; used by one worker at a time.
// The same keys make the same clusters, whatever the step and the company.
// Flops: 2 k_dim a key, centroid and assignment.
class KeyClusters {
 public:
  // The truth, or by a set's kernels where `kernels` is not null. REQUIRES:
  // kernels outlive this.
  explicit KeyClusters(const VectorKernels* kernels) : kernels_(kernels) {}

  // Leaves the segment's clusters in the task's table, as ClusterIndex says.
  void Make(const ClusterTask& task);

 private:
  void ReadKeys(const ClusterTask& task);
  void Center();
  void PlaceCentroids();
  void Assign();
  void MoveCentroids();
  // Whether the set's kernels run, and what they run on.
  bool IsVector() const;
  ClusterKeys Keys();
  void Keep(const ClusterTask& task);

  const VectorKernels* kernels_;
  int64_t k_dim_ = 0;
  int64_t num_keys_ = 0;  // of the segment, sinks left out
  int64_t num_clusters_ = 0;
  std::vector<float> keys_;        // [num_keys, k_dim], to whole tiles
  std::vector<float> transposed_;  // the same, as ClusterKeys has them
  std::vector<float> centroids_;   // [num_clusters, k_dim]: of length 1
  std::vector<int32_t> cluster_;   // [num_keys]: whose it is
  std::vector<int32_t> sizes_;     // [num_clusters]
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_KEY_CLUSTERS_H_
