// Clusters of blocks with CUDA's names.
#ifndef WINNOW_BACKEND_CUDA_EMULATED_INCLUDE_COOPERATIVE_GROUPS_H_
#define WINNOW_BACKEND_CUDA_EMULATED_INCLUDE_COOPERATIVE_GROUPS_H_

#include "backend/cuda/emulated/include/cuda_runtime.h"

namespace cooperative_groups {

class cluster_group {
 public:
  void sync() const { winnow::emulated::Running().MeetCluster(); }
  unsigned block_rank() const {
    return static_cast<unsigned>(winnow::emulated::Running().rank());
  }
  unsigned num_blocks() const {
    return static_cast<unsigned>(winnow::emulated::Running().num_blocks());
  }
  template <typename T>
  T* map_shared_rank(T* pointer, unsigned rank) const {
    return reinterpret_cast<T*>(
        winnow::emulated::Running().OfBlock(pointer, rank));
  }
};
inline cluster_group this_cluster() { return {}; }

}  // namespace cooperative_groups

#endif  // WINNOW_BACKEND_CUDA_EMULATED_INCLUDE_COOPERATIVE_GROUPS_H_
