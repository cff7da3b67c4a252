// A step of prompt rows over a paged pool on the device, drawn at random, and
// attention in float64 to hold a kernel's answer against.
#ifndef WINNOW_BENCH_CUDA_PROMPT_PAGED_PROMPT_H_
#define WINNOW_BENCH_CUDA_PROMPT_PAGED_PROMPT_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace winnow {

struct PromptRequest {
  int first_position = 0;
  int num_tokens = 0;
  int num_prompt_rows = 0;
};

struct PromptCase {
  int head_dim = 128;
  int num_kv_heads = 1;
  int group_heads = 1;
  int window = 0;
  std::vector<PromptRequest> requests;

  int num_q_heads() const { return num_kv_heads * group_heads; }
  int num_rows() const;
  std::string Describe() const;
};

// Owns the device's arrays of one case. Everything that no kernel may look at
// is NaN, or an extent that does not exist.
class PagedPrompt {
 public:
  // Keys, values and queries follow from the request, the position, the head
  // and `seed`: the same tokens in another cut have the same numbers.
  PagedPrompt(const PromptCase& prompt, uint64_t seed);
  ~PagedPrompt();
  PagedPrompt(const PagedPrompt&) = delete;
  PagedPrompt& operator=(const PagedPrompt&) = delete;

  const LayerStep& step() const { return step_; }
  const LayerCache& cache() const { return cache_; }
  ReadArgs Args(const ReadSource& source) const;
  void PoisonOutput();

  std::vector<uint16_t> Out() const;  // [rows, q_heads, head_dim]
  std::vector<float> Lse() const;     // [rows, q_heads]

  // Prints the first rows of [rows, q_heads] that are off; how many numbers
  // are. Checks every `stride`-th prompt row, and that others are untouched.
  int64_t CountWrong(int stride) const;

 private:
  template <typename T>
  T* Allocate(int64_t count);
  View Upload(const std::vector<int32_t>& values);
  void MakeStep();
  void MakePool(std::mt19937_64& random);

  PromptCase prompt_;
  uint64_t seed_;
  LayerStep step_;
  LayerCache cache_;
  View q_, out_, lse_;
  int64_t pool_bytes_ = 0;
  std::vector<int> positions_;  // by row
  std::vector<void*> allocations_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_CUDA_PROMPT_PAGED_PROMPT_H_
