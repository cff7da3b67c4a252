// SparseCase: a random step whose requests choose what they read, for tests of
// Summarize, Select and Attend over picks.
#ifndef WINNOW_BACKEND_CONFORMANCE_SPARSE_CASE_H_
#define WINNOW_BACKEND_CONFORMANCE_SPARSE_CASE_H_

#include <functional>
#include <span>
#include <vector>

#include "backend/conformance/paged_case.h"

namespace winnow {

// Learned gates of one program.
struct TestGate {
  TestArray q;               // [kv_heads, group_heads * k_dim, k_dim]
  TestArray k;               // [kv_heads, 3 * k_dim, k_dim]
  TestArray q_norm, k_norm;  // [k_dim], or without numbers
};

struct SparseCase {
  PagedCase paged;
  TestArray q;  // [rows, q_heads, k_dim]
  float scale = 0;
  std::vector<SelectProgram> programs;
  std::vector<int32_t> selectors;      // by request: program, or -1
  std::vector<int32_t> prompt_tokens;  // by request
  // By request, how many rows of its prompt are prefill rows; none: all are.
  std::vector<int32_t> context_tokens = {};
  // By request, [tokens, q_heads, k_dim]: every token's query, where a program
  // observes them.
  std::vector<TestArray> token_q = {};
  // By program, where one has gates; then channel pair i of the first
  // `rotary_dim` (0: all) is turned by 2^-i a token, and scaled, and q before
  // that is q_pre, [rows, q_heads, k_dim].
  std::vector<TestGate> gates = {};
  TestArray q_pre = {};
  int rotary_dim = 0;
  float rope_scale = 1;

  SparseCase(const KvShape& shape, std::vector<RequestRows> requests,
             RandomSource& random);

  // The program of a row, null where it reads everything.
  const SelectProgram* ProgramOf(size_t request, int32_t row) const;
  // Heads that choose together: of list `list`, [first, end).
  std::pair<int, int> HeadsOf(const SelectProgram& program, int list) const;
  int NumLists(const SelectProgram& program) const;
  // Whether queries choose for a request before its rows do.
  bool IsObserved(size_t request) const;
};

// One program of each shape that the types allow, by chance; clusters and
// summaries in float8 where the device's features have them. Nothing is
// estimated.
SelectProgram RandomProgram(Dtype kv_dtype, uint32_t features,
                            RandomSource& random);
SparseCase RandomSparseCase(RandomSource& random, int max_position,
                            uint32_t features = 0);

// Stands between the rows of a table of summaries, and nowhere else.
inline constexpr uint32_t kNoSummaries = ~uint32_t{0};

// How a case is run: which tokens come in which step, and how many rows'
// lists are chosen at a time.
struct SparseRun {
  int summarize_tokens = 1 << 30;  // in a step, of each request
  int select_rows = 1 << 30;
  bool read_all_pages = false;  // in place of the lists
  // The layer that is run, whose lists others may read too: all rows at once.
  int layer = 0;
  bool keeps_lists = false;
  int reuse_layer = -1;
  PickLists lists = {};  // made by MakeKeptLists; empty: the run's own
  // Next ranks are asked for, up to so many times the budgets; 0: they are not.
  double next_times = 0;
  std::vector<int32_t> num_segments = {};  // by request, as SlotTable has them
  bool asks_scores = false;
  // Called when all tokens have been summarised and indexed.
  std::function<void(std::span<const LayerSelector>, const LayerCache&)>
      on_summaries = {};
};

struct SparseResult {
  std::vector<std::byte> summaries;
  // picks[row][list]; a list of one pick with no tokens stands for every page.
  std::vector<std::vector<std::vector<Pick>>> picks;
  std::vector<std::vector<std::vector<Pick>>> next;  // likewise, if asked for
  // scores[row][list][token], if asked for; NaN: not written.
  std::vector<std::vector<std::vector<float>>> scores;
  // estimates[row][list]: clusters.
  std::vector<std::vector<std::vector<int32_t>>> estimates;
  TestArray out;          // [rows, q_heads, v_dim]
  TestArray lse;          // [rows, q_heads]
  TestArray read_shares;  // [rows], 0.25 more than each row's
};

// Memory for the lists of all rows, for the layers that share them.
PickLists MakeKeptLists(TestDevice& device, const SparseCase& sparse);

SparseResult RunSparse(TestDevice& device, const SparseCase& sparse,
                       const SparseRun& run = {});

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_SPARSE_CASE_H_
