// Cells of a table by selection, context and batch, and the requests of one.
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

// Lists with commas, as typed, and the flags that they are typed after.
struct BenchCellLists {
  std::string contexts_flag, contexts;
  std::string batches_flag, batches;
  std::string selects;
};

// Every selection with every context and batch.
Result<std::vector<BenchCell>> BenchCellsOf(
    const BenchCellLists& lists, const NativeSelector& native_selector);

// The numbers of a list such as 1,16 or 1K,32K. Fails where one is none, or
// below 1, or above `most`; `flag` begins the message.
Result<std::vector<int>> ParseCounts(const std::string& flag,
                                     const std::string& list, int64_t most);

// Tokens that a cell's request may generate: before the last one's prompt is
// read, and `generated` that are measured.
int MaxTokensOf(const BenchCell& cell, const EngineFlags& flags, int generated);

// An engine's options for requests of the cell that generate up to
// `max_tokens`.
Result<EngineOptions> EngineOptionsOf(const BenchCell& cell,
                                      const EngineFlags& flags,
                                      const Model& model, int max_tokens);

// Whether such an engine's pool and selector can be had: the last cell must
// not waste the others.
Status CheckCell(const EngineOptions& options, const Model& model,
                 const Backend& backend);

// The requests of a cell, of random tokens, greedy: ends them all when it
// goes. REQUIRES: the engine outlives it.
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
  // Steps until all have a token.
  Status StepUntilAllGenerate();
  // What request `index` has generated.
  const std::vector<int32_t>& tokens(size_t index) const {
    return observers_[index].tokens;
  }
  // Ends them all; what their KV cost.
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
  std::vector<Observer> observers_;  // never grows after Add
  std::vector<SequenceId> ids_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_CELLS_H_
