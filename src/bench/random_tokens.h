// RandomTokens: tokens without meaning, for measurements.
#ifndef WINNOW_BENCH_RANDOM_TOKENS_H_
#define WINNOW_BENCH_RANDOM_TOKENS_H_

#include <cstdint>
#include <random>
#include <vector>

namespace winnow {

// `count` tokens, each in [0, vocab_size).
inline std::vector<int32_t> RandomTokens(int count, int vocab_size,
                                         std::mt19937& random) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab_size));
  }
  return tokens;
}

}  // namespace winnow

#endif  // WINNOW_BENCH_RANDOM_TOKENS_H_
