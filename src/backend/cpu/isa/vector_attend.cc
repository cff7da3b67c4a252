#include "backend/cpu/isa/vector_attend.h"

#include <cmath>
#include <numbers>

#include "backend/cpu/attend/attend.h"
#include "backend/cpu/attend/attend_prompt.h"
#include "backend/cpu/attend/attend_units.h"
#include "backend/cpu/isa/float_types.h"
#include "backend/cpu/select/query_words.h"
#include "backend/preconditions.h"

namespace winnow {

VectorKernels VectorKernelsOf(CpuKernels kernels) {
  switch (kernels) {
    case CpuKernels::kPortable:
      return PortableVectorKernels();
    case CpuKernels::kAvx2:
      return Avx2VectorKernels();
    case CpuKernels::kAvx512:
      return Avx512VectorKernels();
    case CpuKernels::kAvx512Bf16:
      return Avx512Bf16VectorKernels();
    case CpuKernels::kAmx:
      return AmxVectorKernels();
    case CpuKernels::kScalar:
    case CpuKernels::kBest:
      break;
  }
  CHECK(false, "kernels={}", CpuKernelsName(kernels));
}

namespace {

// Sets the kernels that fit the types and sizes at hand.
void ChooseKernels(const VectorKernels& kernels, AttendJob& job) {
  const HeadBlockFormat& format = job.cache.format;
  job.blend = kernels.blend;
  job.tile = kernels.tile_float32;
  job.unit = kernels.unit_float32;
  job.near_bytes = kernels.near_bytes;
  if (format.k == Dtype::kFloat32) return;
  job.tile_widen = job.unit_widen = format.k == Dtype::kBFloat16
                                        ? kernels.widen_bfloat16
                                        : kernels.widen_float16;
  if (format.k == Dtype::kFloat16 && kernels.unit_float16 != nullptr) {
    job.unit = kernels.unit_float16;
    job.unit_widen = nullptr;
  }
  if (format.k != Dtype::kBFloat16 || job.args.q.dtype != format.k) return;
  if (kernels.unit_bfloat16 != nullptr) {
    job.unit = kernels.unit_bfloat16;
    job.unit_widen = nullptr;
    job.unit_query = kernels.bfloat16_query;
  }
  if (kernels.unit_tile_bfloat16 != nullptr && format.k_dim % 32 == 0 &&
      format.v_dim % 32 == 0) {
    job.unit = kernels.unit_tile_bfloat16;
    job.unit_by_tile = true;
  }
  if (kernels.tile_bfloat16 != nullptr) {
    const bool wide = format.k_dim % kernels.tile_bfloat16_k_multiple == 0;
    job.tile = wide ? kernels.tile_bfloat16 : kernels.narrow_tile_bfloat16;
    job.tile_widen = nullptr;
    job.tile_query = QueryWords::kBFloat16;
  }
}

}  // namespace

LanePlace PlaceOf(const AttendJob& job, const AttendRows& rows, int lane) {
  return {int64_t{job.rows.first_row(rows.request)} + rows.first_row +
              lane / rows.num_heads,
          int64_t{rows.kv_head} * job.group_heads + rows.first_head +
              lane % rows.num_heads};
}

RowPicks PicksOf(const AttendJob& job, const LanePlace& place) {
  if (job.picks == nullptr) return {};
  const int64_t list =
      place.q_head * job.picks->NumLists(place.row) / job.args.q.dim(1);
  const int32_t num_picks = job.picks->NumPicks(place.row, list);
  if (num_picks == kEveryPage) return {};
  return {false,
          {job.picks->List(place.row, list), static_cast<size_t>(num_picks)}};
}

void PackQuery(const AttendJob& job, const LanePlace& place, QueryWords words,
               float* to, int stride) {
  const View& q = job.args.q;
  WithFloatType(q.dtype, [&](auto element) {
    using T = decltype(element);
    PackQuery(words, q.Row<T>(place.row) + place.q_head * q.stride[1],
              job.cache.format.k_dim, to, stride);
  });
}

void WriteRow(const AttendJob& job, const LanePlace& place,
              const RowState& state) {
  const View& out = job.args.out;
  WithFloatType(out.dtype, [&](auto element) {
    using T = decltype(element);
    T* to = out.Row<T>(place.row) + place.q_head * out.stride[1];
    for (int64_t c = 0; c < out.dim(2); ++c) {
      to[c] = T(state.values[c * state.stride] / state.sum);
    }
  });
  if (job.args.lse.empty()) return;
  job.args.lse.Row<float>(place.row)[place.q_head] =
      (state.maximum + std::log2(state.sum)) * std::numbers::ln2_v<float>;
}

VectorAttend::VectorAttend(CpuKernels kernels, ThreadPool& pool)
    : kernels_(VectorKernelsOf(kernels)),
      pool_(pool),
      workspace_(pool.num_workers()) {}

void VectorAttend::Attend(const LayerStep& step, const AttendArgs& args,
                          const LayerCache& cache) {
  const HeadBlockFormat& format = cache.format;
  if (format.k_dim % 16 != 0 || format.v_dim % 16 != 0 ||
      format.k_dim > kMaxAttendDim || format.v_dim > kMaxAttendDim) {
    return AttendScalar(step, args, cache, pool_);
  }
  if (step.num_rows == 0) return;
  CheckAttend(step, args, cache);
  CHECK(args.scale > 0, "scale={}", args.scale);
  AttendJob job = {.step = step,
                   .args = args,
                   .cache = cache,
                   .pool = pool_,
                   .workspace = workspace_,
                   .rows = StepRows(step),
                   .end_row = step.num_rows};
  if (args.sources[0].kind == AttendSource::Kind::kPicks) {
    job.picks = &args.sources[0].picks;
    job.first_row = job.picks->first_row;
    job.end_row = job.first_row + job.picks->num_rows();
  }
  job.group_heads =
      static_cast<int>(args.q.dim(1)) / static_cast<int>(cache.num_kv_heads);
  job.scale_log2 = args.scale * std::numbers::log2e_v<float>;
  ChooseKernels(kernels_, job);
  if (step.has_prefill_rows) AttendPrefillRows(job);
  if (step.has_decode_rows) AttendDecodeRows(job);
}

}  // namespace winnow
