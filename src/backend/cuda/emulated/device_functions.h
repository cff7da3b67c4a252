// CUDA's built-in functions that the kernels call.
#ifndef WINNOW_BACKEND_CUDA_EMULATED_DEVICE_FUNCTIONS_H_
#define WINNOW_BACKEND_CUDA_EMULATED_DEVICE_FUNCTIONS_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "backend/cuda/emulated/cluster.h"
#include "base/check.h"

namespace winnow::emulated {

// What a warp's lanes bring to a meeting, and what they take from it.
template <typename T>
struct Exchange {
  T brought;
  T taken;
  unsigned from;  // the lane whose `brought` is taken
};

template <typename T>
T Shuffle(const char* what, unsigned mask, T value, unsigned from) {
  CHECK(mask == ~0u, "{}: mask={:08x}, emulated for whole warps", what, mask);
  Exchange<T> mine = {value, value, from % kWarpLanes};
  Running().MeetWarp(what, &mine, [](void* const* lanes) {
    for (int i = 0; i < kWarpLanes; ++i) {
      auto* lane = static_cast<Exchange<T>*>(lanes[i]);
      lane->taken = static_cast<Exchange<T>*>(lanes[lane->from])->brought;
    }
  });
  return mine.taken;
}

// merge(all lanes' values) in every lane, folded from 0.
template <typename T, T (*kMerge)(T so_far, T value, int lane)>
T Fold(const char* what, unsigned mask, T value) {
  CHECK(mask == ~0u, "{}: mask={:08x}, emulated for whole warps", what, mask);
  T mine = value;
  Running().MeetWarp(what, &mine, [](void* const* lanes) {
    T merged = 0;
    for (int i = 0; i < kWarpLanes; ++i) {
      merged = kMerge(merged, *static_cast<T*>(lanes[i]), i);
    }
    for (int i = 0; i < kWarpLanes; ++i) *static_cast<T*>(lanes[i]) = merged;
  });
  return mine;
}
inline unsigned AddBit(unsigned so_far, unsigned value, int lane) {
  return so_far | (value != 0 ? 1u : 0u) << lane;
}
inline int Add(int so_far, int value, int) { return so_far + value; }
inline unsigned Or(unsigned so_far, unsigned value, int) {
  return so_far | value;
}
inline unsigned Max(unsigned so_far, unsigned value, int) {
  return so_far > value ? so_far : value;
}

inline unsigned Lane() { return static_cast<unsigned>(Running().lane()); }

// A load of a vector is of an aligned one.
template <typename T>
T Load(const T* from) {
  CHECK(reinterpret_cast<uintptr_t>(from) % alignof(T) == 0,
        "a load of {} bytes from {}", sizeof(T),
        static_cast<const void*>(from));
  return *from;
}

}  // namespace winnow::emulated

inline void __syncthreads() { winnow::emulated::Running().MeetBlock(); }
inline void __syncwarp() {
  winnow::emulated::Running().MeetWarp("__syncwarp", nullptr,
                                       [](void* const*) {});
}
inline void __threadfence() {}  // Stores are seen at once.
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return winnow::emulated::Shuffle("__shfl_sync", mask, value,
                                   static_cast<unsigned>(lane));
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return winnow::emulated::Shuffle(
      "__shfl_xor_sync", mask, value,
      winnow::emulated::Lane() ^ static_cast<unsigned>(lanes));
}
// Lanes without one below keep their own.
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance) {
  const unsigned lane = winnow::emulated::Lane();
  return winnow::emulated::Shuffle("__shfl_up_sync", mask, value,
                                   lane < distance ? lane : lane - distance);
}
inline unsigned __ballot_sync(unsigned mask, bool value) {
  using winnow::emulated::AddBit;
  return winnow::emulated::Fold<unsigned, AddBit>("__ballot_sync", mask,
                                                  value ? 1 : 0);
}
inline int __reduce_add_sync(unsigned mask, int value) {
  return winnow::emulated::Fold<int, winnow::emulated::Add>("__reduce_add_sync",
                                                            mask, value);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return winnow::emulated::Fold<unsigned, winnow::emulated::Or>(
      "__reduce_or_sync", mask, value);
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return winnow::emulated::Fold<unsigned, winnow::emulated::Max>(
      "__reduce_max_sync", mask, value);
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  return ~winnow::emulated::Fold<unsigned, winnow::emulated::Max>(
      "__reduce_min_sync", mask, ~value);
}

// Threads take turns, so that nothing comes between.
template <typename T>
T atomicAdd(T* to, T value) {
  const T old = *to;
  *to = old + value;
  return old;
}
template <typename T>
T atomicOr(T* to, T value) {
  const T old = *to;
  *to = old | value;
  return old;
}
template <typename T>
T atomicAnd(T* to, T value) {
  const T old = *to;
  *to = old & value;
  return old;
}
[[noreturn]] inline void __trap() {
  CHECK(false, "__trap()");
  __builtin_unreachable();
}

template <typename T>
T __ldg(const T* from) {
  return winnow::emulated::Load(from);
}
template <typename T>
T __ldcg(const T* from) {
  return winnow::emulated::Load(from);
}
template <typename T>
T __ldcs(const T* from) {
  return winnow::emulated::Load(from);
}
inline size_t __cvta_generic_to_shared(const void* pointer) {
  return winnow::emulated::Running().SharedOffset(pointer);
}
inline const void* __cvta_generic_to_global(const void* pointer) {
  return pointer;
}

// In CUDA they are global functions, beside those of <cmath>.
using std::isnan;
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline long min(long a, long b) { return a < b ? a : b; }
inline long max(long a, long b) { return a > b ? a : b; }
inline unsigned long min(unsigned long a, unsigned long b) {
  return a < b ? a : b;
}
inline unsigned long long min(unsigned long long a, unsigned long long b) {
  return a < b ? a : b;
}
inline unsigned long long max(unsigned long long a, unsigned long long b) {
  return a > b ? a : b;
}

inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(unsigned bits) {
  return bits == 0 ? 0 : std::countr_zero(bits) + 1;
}
inline int __clz(int bits) {
  return std::countl_zero(static_cast<unsigned>(bits));
}
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  __extension__ using Product = unsigned __int128;
  return static_cast<uint64_t>(static_cast<Product>(a) * b >> 64);
}

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }

// The host rounds to nearest too, and this code is compiled without fusing.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline double __ull2double_rn(unsigned long long x) {
  return static_cast<double>(x);
}
inline float __int2float_rn(int x) { return static_cast<float>(x); }

// What does not fit becomes the nearest that does; NaN becomes 0.
inline int __float2int_rz(float x) {
  constexpr float kEnd = 2147483648.0f;
  if (std::isnan(x)) return 0;
  if (x >= kEnd) return INT32_MAX;
  return x < -kEnd ? INT32_MIN : static_cast<int>(x);
}
inline unsigned long long __double2ull_rz(double x) {
  constexpr double kEnd = 18446744073709551616.0;
  if (!(x > 0)) return 0;
  return x >= kEnd ? ~0ull : static_cast<unsigned long long>(x);
}
inline unsigned long long __float2ull_rn(float x) {
  return __double2ull_rz(std::nearbyint(static_cast<double>(x)));
}

#endif  // WINNOW_BACKEND_CUDA_EMULATED_DEVICE_FUNCTIONS_H_
