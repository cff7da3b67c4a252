// ForEachRun: the tokens of a page's mask that stand side by side.
#ifndef WINNOW_BACKEND_CONTRACT_TOKEN_RUNS_H_
#define WINNOW_BACKEND_CONTRACT_TOKEN_RUNS_H_

#include <bit>
#include <cstdint>

namespace winnow {

// Calls f(first, count) for each run of bits that are set, ascending.
template <typename F>
void ForEachRun(uint32_t tokens, F&& f) {
  while (tokens != 0) {
    const int first = std::countr_zero(tokens);
    f(first, std::countr_one(tokens >> first));
    // What is added carries to behind the run.
    tokens &= tokens + (uint32_t{1} << first);
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_TOKEN_RUNS_H_
