// VectorAttend: Attend by vector kernels.
#ifndef WINNOW_BACKEND_CPU_ISA_VECTOR_ATTEND_H_
#define WINNOW_BACKEND_CPU_ISA_VECTOR_ATTEND_H_

#include "backend/backend.h"
#include "backend/cpu/attend/attend_workspace.h"
#include "backend/cpu/isa/cpu_kernels.h"
#include "backend/cpu/isa/vector_kernels.h"
#include "backend/cpu/step_rows.h"
#include "base/thread_pool.h"

namespace winnow {

// The kernels of a set. REQUIRES: it is not kScalar.
VectorKernels VectorKernelsOf(CpuKernels kernels);

// One Attend under way: what its parts share.
struct AttendJob {
  const LayerStep& step;
  const AttendArgs& args;
  const LayerCache& cache;
  ThreadPool& pool;
  AttendWorkspace& workspace;
  StepRows rows;
  // The lists that are read, null where all pages are, and the rows that are
  // read: [first_row, end_row).
  const PickLists* picks = nullptr;
  int64_t first_row = 0;
  int64_t end_row = 0;
  int group_heads = 0;  // q heads a KV head
  float scale_log2 = 0;
  // The kernels for the types at hand. `widen` is null where they read K and
  // V as stored.
  TileKernel tile = nullptr;
  WidenKernel tile_widen = nullptr;
  QueryWords tile_query = QueryWords::kFloat32;
  UnitKernel unit = nullptr;
  WidenKernel unit_widen = nullptr;
  QueryWords unit_query = QueryWords::kFloat32;
  bool unit_by_tile = false;  // needs tiled_q, and takes whole units
  int near_bytes = 0;
  BlendKernel blend = nullptr;
};

// Where a lane's row and q head stand in the step's tensors.
struct LanePlace {
  int64_t row = 0;
  int64_t q_head = 0;
};
LanePlace PlaceOf(const AttendJob& job, const AttendRows& rows, int lane);

// What a row's q head reads, of what it may see.
struct RowPicks {
  bool every_page = true;
  std::span<const Pick> list;
};
RowPicks PicksOf(const AttendJob& job, const LanePlace& place);

// A row's q head, as in query_words.h.
void PackQuery(const AttendJob& job, const LanePlace& place, QueryWords words,
               float* to, int stride);
// A row's result: values[c * stride] / sum; the maximum in units of log2.
struct RowState {
  float maximum = 0;
  float sum = 0;
  const float* values = nullptr;
  int stride = 1;
};
void WriteRow(const AttendJob& job, const LanePlace& place,
              const RowState& state);

// Owns the workspace; borrows the pool. Called by the backend's thread.
class VectorAttend {
 public:
  // REQUIRES: this CPU runs `kernels`, which is not kScalar.
  VectorAttend(CpuKernels kernels, ThreadPool& pool);

  // The op. Sizes that vectors do not divide (k_dim or v_dim no multiple of
  // 16, or above kMaxAttendDim) go to AttendScalar.
  void Attend(const LayerStep& step, const AttendArgs& args,
              const LayerCache& cache);

 private:
  const VectorKernels kernels_;
  ThreadPool& pool_;
  AttendWorkspace workspace_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_VECTOR_ATTEND_H_
