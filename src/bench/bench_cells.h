// BenchCell: a cell of a table by selection, context and batch, and its
// requests.
#ifndef WINNOW_BENCH_BENCH_CELLS_H_
#define WINNOW_BENCH_BENCH_CELLS_H_

#include <span>
#include <string>
#include <vector>

#include "cli/command/engine_flags.h"
#include "engine/engine.h"
#include "model/forward/model.h"

namespace winnow {

inline constexpr int kMaxBenchContext = 1 << 20;  // tokens

struct BenchCell {
  std::string select;
  int context_tokens = 0;  // of each prompt
  int batch = 0;
};

// Lists as typed, separated by commas, with the flags that they belong to.
struct BenchCellLists {
  std::string contexts_flag, contexts;
  std::string batches_flag, batches;
  std::string selects;
};

// Every combination of selection, context and batch.
Result<std::vector<BenchCell>> BenchCellsOf(
    const BenchCellLists& lists, const NativeSelector& native_selector);

// The numbers of a list such as 1,16 or 1K,32K. Fails if one is invalid, below
// 1 or above `most`; `flag` begins the message.
Result<std::vector<int>> ParseCounts(const std::string& flag,
                                     const std::string& list, int64_t most);

// The tokens that a cell's request may generate: until the last request's
// prompt is read, and then the `generated` that are measured.
int MaxTokensOf(const BenchCell& cell, const EngineFlags& flags, int generated);

// An engine's options for requests of the cell that generate up to
// `max_tokens`.
Result<EngineOptions> EngineOptionsOf(const BenchCell& cell,
                                      const EngineFlags& flags,
                                      const Model& model, int max_tokens);

// Fails if such an engine's pool or selector is impossible. Checked for all
// cells first, so that the last one cannot waste the others' time.
Status CheckCell(const EngineOptions& options, const Model& model,
                 const Backend& backend);

// The requests of a cell: random tokens, greedy. The destructor ends them.
// REQUIRES: the engine outlives it.
class CellRequests {
 public:
  explicit CellRequests(Engine& engine) : engine_(engine) {}
  ~CellRequests();
  CellRequests(const CellRequests&) = delete;
  CellRequests& operator=(const CellRequests&) = delete;

  // REQUIRES of each: called once.
  Status Add(const BenchCell& cell, int max_tokens, int vocab_size,
             uint64_t seed);
  Status Add(const Request& request, int batch);
  Status Add(std::span<const Request> requests);
  // Steps until every request has generated a token.
  Status StepUntilAllGenerate();
  // The tokens that request `index` has generated.
  const std::vector<int32_t>& tokens(size_t index) const {
    return observers_[index].tokens;
  }
  // Ends all requests and returns their KV counters.
  std::vector<KvCounters> End();

 private:
  class Observer final : public RequestObserver {
   public:
    void OnPrefill(int, int) override {}
    bool OnToken(const GeneratedToken& token) override {
      tokens.push_back(token.token_id);
      return true;
    }
    void OnFinish(const Completion& completion) override { kv = completion.kv; }
    std::vector<int32_t> tokens;
    KvCounters kv;
  };

  Engine& engine_;
  std::vector<Observer> observers_;  // constant size after Add
  std::vector<SequenceId> ids_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_CELLS_H_
