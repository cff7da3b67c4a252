#include "bench/bench_cells.h"

#include <algorithm>

#include "base/size_text.h"
#include "bench/random_tokens.h"
#include "sparse/spec/selector.h"

namespace winnow {
Result<std::vector<int>> ParseCounts(const std::string& flag,
                                     const std::string& list, int64_t most) {
  std::vector<int> counts;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string text = list.substr(begin, end - begin);
    const Result<int64_t> count = ParseTokens(text);
    if (!count.ok() || *count < 1 || *count > most) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{} must be numbers from 1 to {} with commas (1,16; "
                       "1K,32K), has \"{}\"",
                       flag, most, text);
    }
    counts.push_back(static_cast<int>(*count));
    begin = end + 1;
  }
  return counts;
}

Result<std::vector<BenchCell>> BenchCellsOf(
    const BenchCellLists& lists, const NativeSelector& native_selector) {
  ASSIGN_OR_RETURN(const std::vector<int> batches,
                   ParseCounts(lists.batches_flag, lists.batches, kMaxNumSeqs));
  ASSIGN_OR_RETURN(
      const std::vector<int> contexts,
      ParseCounts(lists.contexts_flag, lists.contexts, kMaxBenchContext));
  ASSIGN_OR_RETURN(const std::vector<std::string> selects,
                   SplitSelects(lists.selects));
  std::vector<BenchCell> cells;
  for (const std::string& select : selects) {
    ASSIGN_OR_RETURN(const std::string resolved,
                     ResolveSelect(select, native_selector));
    for (const int context : contexts) {
      for (const int batch : batches) {
        cells.push_back({resolved, context, batch});
      }
    }
  }
  return cells;
}

int MaxTokensOf(const BenchCell& cell, const EngineFlags& flags,
                int generated) {
  const int64_t prompt_tokens = int64_t{cell.batch} * cell.context_tokens;
  const int64_t prompt_steps =
      prompt_tokens / flags.max_num_batched_tokens + cell.batch + 2;
  return static_cast<int>(prompt_steps) + generated + 1;
}

Result<EngineOptions> EngineOptionsOf(const BenchCell& cell,
                                      const EngineFlags& flags,
                                      const Model& model, int max_tokens) {
  ASSIGN_OR_RETURN(EngineOptions options, ParseEngineOptions(flags));
  const int64_t tokens = int64_t{cell.context_tokens} + max_tokens + 1;
  options.max_num_seqs = cell.batch;
  options.prefix_caching = false;  // Every round reads its prompts anew.
  options.max_model_len = static_cast<int>(tokens);
  options.device_kv_bytes = cell.batch * PagesFor(tokens) * kPageTokens *
                            KvBytesPerToken(model.config(), model.dtypes().kv);
  if (cell.select != "dense") options.selectors = {cell.select};
  return ResolveOptions(options, model.config());
}

Status CheckCell(const EngineOptions& options, const Model& model,
                 const Backend& backend) {
  RETURN_IF_ERROR(KvPagesOf(options, model, backend.attributes()));
  for (const std::string& spec : options.selectors) {
    RETURN_IF_ERROR(
        MakeSelector(spec, SelectorShapeOf(model, options.max_model_len)));
  }
  return Ok{};
}

CellRequests::~CellRequests() { End(); }

std::vector<KvCounters> CellRequests::End() {
  for (const SequenceId id : ids_) engine_.Cancel(id);
  // What comes next does not wait for a step that was launched ahead.
  (void)engine_.Step();
  std::vector<KvCounters> counters;
  for (const Observer& observer : observers_) counters.push_back(observer.kv);
  return counters;
}

Status CellRequests::Add(const BenchCell& cell, int max_tokens, int vocab_size,
                         uint64_t seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  Request request;
  request.prompt = RandomTokens(cell.context_tokens, vocab_size, random);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  if (cell.select != "dense") request.selector = 0;
  return Add(request, cell.batch);
}

Status CellRequests::Add(const Request& request, int batch) {
  return Add(std::vector<Request>(static_cast<size_t>(batch), request));
}

Status CellRequests::Add(std::span<const Request> requests) {
  observers_.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSIGN_OR_RETURN(const SequenceId id,
                     engine_.Add(requests[i], &observers_[i]));
    ids_.push_back(id);
  }
  return Ok{};
}

Status CellRequests::StepUntilAllGenerate() {
  while (std::ranges::any_of(
      observers_, [](const Observer& each) { return each.tokens.empty(); })) {
    ASSIGN_OR_RETURN(const bool more, engine_.Step());
    CHECK(more, "requests ended before all generated");
  }
  return Ok{};
}

}  // namespace winnow
