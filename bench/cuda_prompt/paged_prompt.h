// A step of prefill rows over a paged pool on the device, drawn at random, and
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
  int num_prefill_rows = 0;
};

// Whether rows read lists of picks, and what is in them.
struct PromptPicks {
  int num_lists = 0;   // a row: 0 (no picks), 1, kv_heads or q_heads
  double kept = 1;     // share of the pages that a list names
  bool ragged = true;  // masks of some tokens, lists of every page
  int first_row = 0;   // lists of rows [first_row, end_row) of the step
  int end_row = 1 << 30;
};

struct PromptCase {
  int head_dim = 128;
  int num_kv_heads = 1;
  int group_heads = 1;
  int window = 0;
  std::vector<PromptRequest> requests;
  PromptPicks picks = {};
  bool batch_invariant = false;

  int num_q_heads() const { return num_kv_heads * group_heads; }
  int num_rows() const;
  std::string Describe() const;
};

// Owns the device's arrays of one case. Everything that no kernel may look at
// is NaN, or a KV block that does not exist.
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
  const AttendSource& source() const { return source_; }
  AttendArgs Args() const;
  // Keys that all rows and heads read.
  double NumKeysAttend() const { return num_keys_read_; }
  void PoisonOutput();

  std::vector<uint16_t> Out() const;  // [rows, q_heads, head_dim]
  std::vector<float> Lse() const;     // [rows, q_heads]

  // Prints the first rows of [rows, q_heads] that are off; how many numbers
  // are. Checks every `stride`-th prefill row, and that others are untouched.
  int64_t CountWrong(int stride) const;

 private:
  template <typename T>
  T* Allocate(int64_t count);
  View Upload(const std::vector<int32_t>& values);
  void MakeStep();
  void MakePool(std::mt19937_64& random);
  void MakePicks();
  bool IsRead(int64_t row) const;

  PromptCase prompt_;
  uint64_t seed_;
  LayerStep step_;
  LayerCache cache_;
  AttendSource source_;
  double num_keys_read_ = 0;
  uint32_t* read_tokens_ = nullptr;  // [rows, lists, pages], bits
  int64_t num_pages_ = 0;            // of the longest request
  View q_, out_, lse_;
  int64_t pool_bytes_ = 0;
  std::vector<int> positions_;  // by row
  std::vector<void*> allocations_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_CUDA_PROMPT_PAGED_PROMPT_H_
