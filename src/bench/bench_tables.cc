#include "bench/bench_tables.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/size_text.h"
#include "bench/bench_cells.h"
#include "cli/command/output.h"
#include "engine/residency/kv_tables.h"
#include "engine/selection/slot_tokens.h"
#include "model/config/shapes.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

Result<Selector> SelectorOf(const ModelConfig& config, const BenchCell& cell) {
  const SelectorShape shape = {.num_layers = config.num_layers,
                               .num_q_heads = config.num_q_heads,
                               .num_kv_heads = config.num_kv_heads,
                               .head_dim = config.head_dim,
                               .kv_dtype = Dtype::kBFloat16,
                               .max_context_tokens = cell.context_tokens,
                               .windows = config.windows};
  ASSIGN_OR_RETURN(Selector selector, MakeSelector(cell.select, shape));
  if (SlotTokensOf(selector)) return selector;
  return MakeError(ErrorCode::kInvalidArgument,
                   "--select {}: its requests have no slots", cell.select);
}

Result<Json> RowOf(const ModelConfig& config, const BenchCell& cell) {
  ASSIGN_OR_RETURN(const Selector selector, SelectorOf(config, cell));
  const FarRequests requests = {.num_requests = cell.batch,
                                .context_tokens = cell.context_tokens};
  const SlotCapacity room =
      RoomFor(config, Dtype::kBFloat16, selector, requests);
  const SummaryCacheOptions summaries =
      SummariesOf(config, selector, room, cell.context_tokens);
  const KvTablesBytes bytes = KvTablesOf(room, summaries);
  const int64_t token_table = TokenTableBytes(config, requests);
  const int64_t flat_tables = FlatTableBytes(config, requests);
  const auto times_smaller = [&bytes](int64_t than) {
    return static_cast<double>(than) / static_cast<double>(bytes.total());
  };
  return Json{
      {"select", cell.select},
      {"slot_tokens", room.pool.format.slot_tokens},
      {"context", cell.context_tokens},
      {"requests", cell.batch},
      {"page_table_bytes", bytes.page_tables + bytes.prompt_page_tables},
      {"summary_table_bytes", bytes.summary_table},
      {"slot_entry_bytes", bytes.slots.entries},
      {"slot_state_bytes",
       bytes.slots.tags + bytes.slots.ages + bytes.slots.frames},
      {"step_bytes", bytes.slots.rows + bytes.slots.counts},
      {"bytes", bytes.total()},
      {"token_table_bytes", token_table},
      {"times_smaller", times_smaller(token_table)},
      {"flat_tables_bytes", flat_tables},
      {"times_smaller_than_flat", times_smaller(flat_tables)},
      {"summary_bytes", BytesOf(summaries).rows}};
}

void PrintRow(const Json& row) {
  const auto bytes = [&row](const char* name) {
    return FormatBytes(row[name].get<int64_t>());
  };
  const std::string pages =
      FormatBytes(row["page_table_bytes"].get<int64_t>() +
                  row["summary_table_bytes"].get<int64_t>());
  Print(fmt::format(
      "{:<28} {:>5} {:>9} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8.1f} "
      "{:>8.0f} {:>10}\n",
      row["select"].get<std::string>(), row["slot_tokens"].get<int>(),
      row["context"].get<int>(), row["requests"].get<int>(), pages,
      bytes("slot_entry_bytes"), bytes("slot_state_bytes"), bytes("step_bytes"),
      bytes("bytes"), row["times_smaller"].get<double>(),
      row["times_smaller_than_flat"].get<double>(), bytes("summary_bytes")));
}

}  // namespace

Result<int> RunBenchTables(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const ModelConfig config, ConfigOfShape(flags.tables_shape));
  ASSIGN_OR_RETURN(const std::vector<BenchCell> cells,
                   BenchCellsOf({.contexts_flag = "--contexts",
                                 .contexts = flags.tables_contexts,
                                 .batches_flag = "--batches",
                                 .batches = flags.tables_batches,
                                 .selects = flags.tables_selects},
                                std::nullopt));
  Json rows = Json::array();
  for (const BenchCell& cell : cells) {
    ASSIGN_OR_RETURN(Json row, RowOf(config, cell));
    rows.push_back(std::move(row));
  }
  if (flags.engine.json) {
    const Json figures = {{"shape", flags.tables_shape},
                          {"rows", std::move(rows)}};
    RETURN_IF_ERROR(WriteJson(flags.engine, figures.dump() + "\n"));
    return 0;
  }
  Print(fmt::format(
      "{:<28} {:>5} {:>9} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} "
      "{:>8} {:>10}\n",
      "select", "slots", "context", "requests", "pages", "entries", "states",
      "step", "in all", "times", "of flat", "summaries"));
  for (const Json& row : rows) PrintRow(row);
  return 0;
}

}  // namespace winnow
