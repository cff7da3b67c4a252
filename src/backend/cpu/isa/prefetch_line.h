// PrefetchLine: the line of memory that is read soon.
#ifndef WINNOW_BACKEND_CPU_ISA_PREFETCH_LINE_H_
#define WINNOW_BACKEND_CPU_ISA_PREFETCH_LINE_H_

namespace winnow {

// The level of the cache that is fetched into.
enum class CacheLevel { kFirst, kSecond };

// Into a level of the cache. Not by __builtin_prefetch: a compiler moves its
// own together, or leaves one out; and GCC 12 holds a function that does
// nothing else for one without effect, and leaves out its calls. Files that are
// compiled for different instruction sets may share it.
template <CacheLevel kLevel>
[[gnu::always_inline]] inline void PrefetchLine(const void* line) {
  if constexpr (kLevel == CacheLevel::kFirst) {
    asm volatile("prefetcht0 %a0" : : "p"(line));
  } else {
    asm volatile("prefetcht1 %a0" : : "p"(line));
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_PREFETCH_LINE_H_
