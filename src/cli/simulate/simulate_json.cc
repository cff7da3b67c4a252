#include "cli/simulate/simulate_json.h"

#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

Json PredictionJson(const SimulatePlan& plan, const RowWork& work,
                    int64_t batch) {
  const PredictedStep cost = PredictStep(plan.device, plan.model, work, batch);
  return {{"batch", batch},
          {"tpot_ms", cost.tpot_ms},
          {"tokens_per_s", cost.tokens_s},
          {"products_ms", cost.products_ms},
          {"score_ms", cost.score_ms},
          {"read_ms", cost.read_ms},
          {"link_ms", cost.link_ms},
          {"fixed_ms", cost.fixed_ms},
          {"all_reduce_ms", cost.all_reduce_ms},
          {"hint_excess_ms", cost.hint_excess_ms}};
}

Json HeldOutJson(const SimulateReport& report, const SimulateCell& cell) {
  const std::optional<HeldOut> held = HoldOutLongest(report, cell);
  if (!held) return nullptr;
  return {{"context_tokens", held->recorded.context_tokens},
          {"predicted_hit_rate", held->predicted.hit_rate()},
          {"recorded_hit_rate", held->recorded.hit_rate()},
          {"predicted_read_tokens", held->predicted.read_tokens},
          {"recorded_read_tokens", held->recorded.read_tokens}};
}

Json CellJson(const SimulateReport& report, const PlacedCell& at) {
  const SimulatePlan& plan = report.plan;
  const SimulateCell& cell = *at.cell;
  const SlotCounts counts = cell.totals().counts;
  Json predicted = Json::array();
  for (const int64_t batch : plan.batches) {
    predicted.push_back(PredictionJson(plan, at.work, batch));
  }
  const int64_t fit = RequestsThatFit(plan.device, plan.model, at.work);
  const RestoreTimes restore = PredictRestore(plan.device, plan.model, at.work);
  return {{"cache_budget", cell.cache_budget},
          {"slot_tokens", cell.slot_tokens},
          {"policy", cell.policy()},
          {"context_tokens", at.work.context_tokens},
          {"basis", NameOf(at.basis)},
          {"cache_tokens", at.work.slot_tokens},
          {"hit_rate", at.work.hit_rate()},
          {"picks", counts.wanted},
          {"misses", counts.missed},
          {"hints", counts.of(kHintsCount)},
          {"hints_used", counts.of(kHintsUsedCount)},
          {"fetched_bytes_per_row", FetchedBytes(report, at)},
          {"held_out", HeldOutJson(report, cell)},
          {"predicted", std::move(predicted)},
          {"predicted_request_bytes",
           RequestBytes(plan.device, plan.model, at.work)},
          {"predicted_host_bytes", HostBytes(plan.model, at.work)},
          {"predicted_requests_that_fit", fit},
          {"predicted_at_fit",
           fit > 0 ? PredictionJson(plan, at.work, fit) : nullptr},
          {"predicted_restore_from_disk_ms", restore.from_disk_ms},
          {"predicted_restore_from_host_ms", restore.from_host_ms},
          {"predicted_recompute_ms", restore.computed_ms}};
}

Json BestJson(const BestBudget& best) {
  Json lacks = Json::array();
  for (const MemoryLack& lack : best.lacks) {
    lacks.push_back({{"field", lack.flag},
                     {"limit", lack.limit_gib},
                     {"needed", lack.needed_gib}});
  }
  const bool fits = best.lacks.empty();
  const auto where_slots = [&](Json value) {
    return best.slot_tokens > 0 ? std::move(value) : Json(nullptr);
  };
  return {{"context_tokens", best.context_tokens},
          {"basis", NameOf(best.basis)},
          {"goal", best.most_tokens ? "tokens_per_s" : "tpot"},
          {"batch", best.batch},
          {"fits", fits},
          {"cache_budget", best.cache_budget},
          {"policy", where_slots(best.policy)},
          {"slot_tokens", where_slots(best.slot_tokens)},
          {"tpot_ms", fits ? Json(best.cost.tpot_ms) : Json(nullptr)},
          {"tokens_per_s", fits ? Json(best.cost.tokens_s) : Json(nullptr)},
          {"lacks", std::move(lacks)}};
}

Json TraceJson(const SimulateReport& report) {
  const TraceHeader& header = report.header;
  const ReplayTotals all =
      report.cells.empty() ? ReplayTotals() : report.cells[0].totals();
  Json lengths = Json::array();
  if (!report.cells.empty()) {
    for (const auto& [length, totals] : report.cells[0].by_length) {
      const RowWork work = WorkOf(report, 1, totals);
      lengths.push_back(
          {{"context_tokens", work.context_tokens}, {"rows", totals.num_rows}});
    }
  }
  const double mean = all.num_rows > 0
                          ? static_cast<double>(all.context_tokens) /
                                static_cast<double>(all.num_rows)
                          : 0;
  return {{"file", report.file},
          {"model", header.model},
          {"select", header.select},
          {"layers", header.num_layers()},
          {"choosing_layers", header.num_choosing_layers()},
          {"requests", report.num_requests},
          {"answered_right", report.num_answered_right},
          {"rows", all.num_rows},
          {"context_tokens", mean},
          {"lengths", std::move(lengths)}};
}

Json DeviceJson(const DeviceModel& device) {
  return {{"name", device.name},
          {"gpus", device.num_gpus},
          {"memory_gb_per_s", device.memory_gb_s},
          {"tflop_per_s", device.tflop_s},
          {"link_gb_per_s", device.link_gb_s},
          {"disk_gb_per_s", device.disk_gb_s},
          {"all_reduce_gb_per_s", device.all_reduce_gb_s},
          {"all_reduce_us", device.all_reduce_us},
          {"layer_us", device.layer_us},
          {"memory_gib", device.memory_gib},
          {"host_gib", device.host_gib}};
}

}  // namespace

std::string SimulateJson(const SimulateReport& report,
                         const std::vector<PlacedCells>& placed,
                         const std::vector<BestBudget>& best) {
  Json cells = Json::array(), budgets = Json::array();
  for (const PlacedCells& of : placed) {
    for (const PlacedCell& at : of.cells) {
      cells.push_back(CellJson(report, at));
    }
  }
  for (const BestBudget& of : best) budgets.push_back(BestJson(of));
  const Json json = {{"trace", TraceJson(report)},
                     {"shape", report.shape},
                     {"device_model", DeviceJson(report.plan.device)},
                     {"cells", std::move(cells)},
                     {"best", std::move(budgets)}};
  return json.dump();
}

}  // namespace winnow
