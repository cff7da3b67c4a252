#include "bench/bench_prefill.h"

#include "bench/bench_prompt.h"
#include "cli/command/loaded_model.h"
#include "cli/command/output.h"

namespace winnow {
namespace {

Result<std::vector<PromptCell>> CellsOf(const BenchFlags& flags,
                                        const NativeSelector& native_selector) {
  ASSIGN_OR_RETURN(const std::vector<BenchCell> requests,
                   BenchCellsOf({.contexts_flag = "--prompt",
                                 .contexts = flags.prompts,
                                 .batches_flag = "",
                                 .batches = "1",
                                 .selects = flags.selects},
                                native_selector));
  std::vector<int> chunks = {flags.engine.max_num_batched_tokens};
  if (!flags.chunks.empty()) {
    ASSIGN_OR_RETURN(
        chunks, ParseCounts("--chunk", flags.chunks, kMaxNumBatchedTokens));
  }
  std::vector<PromptCell> cells;
  for (const BenchCell& request : requests) {
    for (const int chunk : chunks) {
      cells.push_back({request.select, request.context_tokens, chunk});
    }
  }
  return cells;
}

}  // namespace

Status CheckPrefillFlags(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::vector<std::string> selects,
                   SplitSelects(flags.selects));
  RETURN_IF_ERROR(CheckEngineFlags(flags.engine, selects));
  RETURN_IF_ERROR(CellsOf(flags, /*native_selector=*/std::nullopt));
  return Ok{};
}

Result<int> RunBenchPrefill(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> device, MakeBackend(flags.engine));
  OpTimesBackend backend(std::move(device));
  ASSIGN_OR_RETURN(const Model model,
                   OpenModelOrShape(backend, flags.engine, flags.shape));
  ASSIGN_OR_RETURN(const std::vector<PromptCell> cells,
                   CellsOf(flags, model.config().native_selector));
  const PromptOptions options = {.engine = flags.engine,
                                 .rounds = flags.rounds};
  for (const PromptCell& cell : cells) {
    RETURN_IF_ERROR(CheckPrompt(backend, model, options, cell));
  }
  const bool prints = !flags.engine.json;
  if (prints) {
    Print(fmt::format("{}, {}\n{}", backend.attributes().description,
                      DtypeName(model.dtypes().compute), PromptHeader()));
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const PromptCell& cell : cells) {
    ASSIGN_OR_RETURN(nlohmann::ordered_json row,
                     MeasurePrompt(backend, model, options, cell));
    if (prints) Print(PromptLine(row));
    rows.push_back(std::move(row));
    RETURN_IF_ERROR(CheckOutputIsRead());  // Others are minutes of work.
  }
  if (prints) return 0;
  const nlohmann::ordered_json report = {
      {"model", ModelName(flags)},
      {"device", backend.attributes().description},
      {"dtype", DtypeName(model.dtypes().compute)},
      {"rounds", flags.rounds},
      {"cells", std::move(rows)}};
  const int indent = flags.engine.json_file.empty() ? -1 : 2;
  RETURN_IF_ERROR(WriteJson(flags.engine, report.dump(indent) + "\n"));
  return 0;
}

}  // namespace winnow
