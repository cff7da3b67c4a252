// The PTX instructions that the kernels write out: rewrite.py makes a call of
// each, with the instruction's name and operands.
#ifndef WINNOW_BACKEND_CUDA_EMULATED_INSTRUCTIONS_H_
#define WINNOW_BACKEND_CUDA_EMULATED_INSTRUCTIONS_H_

#include <cstdint>

namespace winnow::emulated::ptx {

// Destinations are pointers, in the places that the instruction has for them.
using Words = const uint32_t (&)[4];
using WordPair = const uint32_t (&)[2];
using Floats = const float (&)[4];
using ToFloats = float* const (&)[4];
using ToWords = uint32_t* const (&)[4];

// d = a b + c of [16, 16] and [16, 8] matrices; sums in float32, ascending.
void mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(ToFloats d, Words a,
                                                         WordPair b, Floats c);
void mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(ToFloats d, Words a,
                                                       WordPair b, Floats c);

void ldmatrix_sync_aligned_m8n8_x4_shared_b16(ToWords to, uint32_t address);
void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(ToWords to,
                                                    uint32_t address);
void movmatrix_sync_aligned_m8n8_trans_b16(uint32_t* to, uint32_t matrix);

void cp_async_cg_shared_global(uint32_t to, const void* from, int num_bytes,
                               uint32_t num_bytes_read);
// A policy says what a cache keeps, and there is none.
inline void createpolicy_fractional_L2__evict_first_b64(uint64_t* to, double) {
  *to = 0;
}
inline void cp_async_cg_shared_global_L2__cache_hint(uint32_t to,
                                                     const void* from,
                                                     int num_bytes,
                                                     uint32_t num_bytes_read,
                                                     uint64_t) {
  cp_async_cg_shared_global(to, from, num_bytes, num_bytes_read);
}
void cp_async_commit_group();
void cp_async_wait_group(int num_pending);

// A launch begins when the one ahead of it has ended.
inline void prefetch_global_L2(const void*) {}
inline void griddepcontrol_wait() {}
inline void griddepcontrol_launch_dependents() {}

void cvt_rn_bf16x2_f32(uint32_t* to, float high, float low);
void ex2_approx_ftz_f32(float* to, float x);

}  // namespace winnow::emulated::ptx

#endif  // WINNOW_BACKEND_CUDA_EMULATED_INSTRUCTIONS_H_
