#include "cli/simulate_table.h"

#include <nlohmann/json.hpp>

#include "backend/summary_table.h"
#include "base/size_text.h"
#include "cli/progress.h"

namespace winnow {
namespace {

std::string_view NameOf(SlotRule rule) {
  return kSlotRuleNames[static_cast<size_t>(rule)];
}

double Share(int64_t part, double of) {
  return of > 0 ? static_cast<double>(part) / of : 0;
}

// Rows, over choosing layers and KV heads.
double RowHeads(const SimulateReport& report, const SimulateCell& cell) {
  return static_cast<double>(cell.totals.num_rows *
                             report.header.num_choosing_layers() *
                             report.header.num_kv_heads);
}

// Of the traced model, a row.
double FetchedBytes(const SimulateReport& report, const SimulateCell& cell) {
  const TraceHeader& header = report.header;
  const SlotCounts& counts = cell.totals.counts;
  const int64_t pieces = counts.missed + counts.of(kHintsCount);
  return Share(
      pieces * cell.slot_tokens * 2 * header.head_dim * header.kv_element_bytes,
      static_cast<double>(cell.totals.num_rows));
}

nlohmann::ordered_json PredictionJson(const SimulateReport& report,
                                      const RowWork& work, int64_t batch) {
  const PredictedStep cost =
      PredictStep(report.plan.device, report.plan.model, work, batch);
  return {{"batch", batch},
          {"tpot_ms", cost.tpot_ms},
          {"tokens_per_s", cost.tokens_s},
          {"products_ms", cost.products_ms},
          {"score_ms", cost.score_ms},
          {"read_ms", cost.read_ms},
          {"link_ms", cost.link_ms},
          {"fixed_ms", cost.fixed_ms},
          {"hint_excess_ms", cost.hint_excess_ms}};
}

nlohmann::ordered_json CellJson(const SimulateReport& report,
                                const SimulateCell& cell) {
  const SlotCounts& counts = cell.totals.counts;
  const RowWork work = WorkOf(report, cell);
  nlohmann::ordered_json predicted = nlohmann::ordered_json::array();
  for (const int64_t batch : report.plan.batches) {
    predicted.push_back(PredictionJson(report, work, batch));
  }
  const int64_t fit =
      RequestsThatFit(report.plan.device, report.plan.model, work);
  return {{"cache_budget", cell.cache_budget},
          {"slot_tokens", cell.slot_tokens},
          {"policy", NameOf(cell.rule)},
          {"cache_tokens", work.slot_tokens},
          {"hit_rate", cell.totals.hit_rate()},
          {"picks", counts.wanted},
          {"misses", counts.missed},
          {"hints", counts.of(kHintsCount)},
          {"hints_used", counts.of(kHintsUsedCount)},
          {"fetched_bytes_per_row", FetchedBytes(report, cell)},
          {"predicted", std::move(predicted)},
          {"predicted_request_bytes", RequestBytes(report.plan.model, work)},
          {"predicted_requests_that_fit", fit},
          {"predicted_at_fit",
           fit > 0 ? PredictionJson(report, work, fit) : nullptr},
          {"predicted_restore_from_disk_ms",
           RestoreFromDiskMs(report.plan.device, report.plan.model, work)}};
}

}  // namespace

RowWork WorkOf(const SimulateReport& report, const SimulateCell& cell) {
  const TraceHeader& header = report.header;
  const ReplayTotals& totals = cell.totals;
  const double row_heads = RowHeads(report, cell);
  const auto rows = static_cast<double>(totals.num_rows);
  const auto layers = static_cast<double>(header.num_choosing_layers());
  RowWork work;
  work.context_tokens = Share(totals.context_tokens, rows);
  work.dense_layers =
      std::min(header.num_layers() - header.num_choosing_layers(),
               report.plan.model.num_layers);
  work.read_tokens = Share(totals.read_tokens, row_heads);
  work.missed_tokens =
      Share(totals.counts.missed * cell.slot_tokens, row_heads);
  work.hinted_tokens =
      Share(totals.counts.of(kHintsCount) * cell.slot_tokens, row_heads);
  work.slot_tokens = Share(totals.slot_tokens, rows * layers);
  work.summary_bytes = static_cast<double>(header.summary_bytes) /
                       kSegmentTokens / header.head_dim *
                       report.plan.model.head_dim;
  return work;
}

std::string SimulateTable(const SimulateReport& report) {
  std::string table = fmt::format(
      "{}: {} with {}, {} questions, {} answered right\nTimes are predictions: "
      "{} on a model of {}\n",
      report.file, report.header.model, report.header.select,
      FormatCount(report.num_requests), FormatCount(report.num_answered_right),
      report.shape, report.plan.device.name);
  table += fmt::format("{:>7} {:>6} {:>6} {:<12} {:>7} {:>12} {:>5}", "cache",
                       "tokens", "slot", "policy", "hits", "fetched", "fit");
  for (const int64_t batch : report.plan.batches) {
    table += fmt::format(" {:>10}", fmt::format("TPOT@{}", batch));
  }
  table += "\n";
  for (const SimulateCell& cell : report.cells) {
    const RowWork work = WorkOf(report, cell);
    table += fmt::format(
        "{:>7} {:>6.0f} {:>6} {:<12} {:>6.2f}% {:>12} {:>5}", cell.cache_budget,
        work.slot_tokens, cell.slot_tokens, NameOf(cell.rule),
        100 * cell.totals.hit_rate(),
        FormatBytes(static_cast<int64_t>(FetchedBytes(report, cell))),
        RequestsThatFit(report.plan.device, report.plan.model, work));
    for (const int64_t batch : report.plan.batches) {
      const PredictedStep cost =
          PredictStep(report.plan.device, report.plan.model, work, batch);
      table += fmt::format(" {:>7.2f} ms", cost.tpot_ms);
    }
    table += "\n";
  }
  return table;
}

std::string SimulateJson(const SimulateReport& report) {
  const TraceHeader& header = report.header;
  const DeviceModel& device = report.plan.device;
  nlohmann::ordered_json cells = nlohmann::ordered_json::array();
  for (const SimulateCell& cell : report.cells) {
    cells.push_back(CellJson(report, cell));
  }
  const ReplayTotals first =
      report.cells.empty() ? ReplayTotals() : report.cells[0].totals;
  const nlohmann::ordered_json json = {
      {"trace",
       {{"file", report.file},
        {"model", header.model},
        {"select", header.select},
        {"layers", header.num_layers()},
        {"choosing_layers", header.num_choosing_layers()},
        {"requests", report.num_requests},
        {"answered_right", report.num_answered_right},
        {"rows", first.num_rows},
        {"context_tokens",
         Share(first.context_tokens, static_cast<double>(first.num_rows))}}},
      {"shape", report.shape},
      {"device_model",
       {{"name", device.name},
        {"memory_gb_per_s", device.memory_gb_s},
        {"tflop_per_s", device.tflop_s},
        {"link_gb_per_s", device.link_gb_s},
        {"disk_gb_per_s", device.disk_gb_s},
        {"layer_us", device.layer_us},
        {"memory_gib", device.memory_gib}}},
      {"cells", std::move(cells)}};
  return json.dump();
}

}  // namespace winnow
