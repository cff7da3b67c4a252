#include "engine/schedule_trace.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <vector>

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// Calls `visit` with the name of each field and the field.
template <typename Limits, typename Visit>
void VisitLimits(Limits& limits, const Visit& visit) {
  visit("max_num_seqs", limits.max_num_seqs);
  visit("max_num_batched_tokens", limits.max_num_batched_tokens);
  visit("num_layers", limits.num_layers);
  visit("layers_per_step", limits.layers_per_step);
  visit("num_pages", limits.num_pages);
  visit("num_free_host_pages", limits.num_free_host_pages);
  visit("num_table_pages", limits.num_table_pages);
  visit("max_step_ms", limits.max_step_ms);
}

template <typename Cost, typename Visit>
void VisitCost(Cost& cost, const Visit& visit) {
  visit("step_ms", cost.step_ms);
  visit("row_ms", cost.row_ms);
  visit("read_ms", cost.read_ms);
  visit("most_rows", cost.most.rows);
  visit("most_reads", cost.most.reads);
}

template <typename Snapshot, typename Visit>
void VisitSequence(Snapshot& sequence, const Visit& visit) {
  visit("id", sequence.id);
  visit("num_tokens", sequence.num_tokens);
  visit("num_computed", sequence.num_computed);
  visit("chunk_tokens", sequence.chunk_tokens);
  visit("next_layer", sequence.next_layer);
  visit("layerwise", sequence.layerwise);
  visit("layer_tokens", sequence.layer_tokens);
  visit("admitted", sequence.admitted);
  visit("priority", sequence.priority);
  visit("num_overtaken", sequence.num_overtaken);
  visit("is_restoring", sequence.is_restoring);
  visit("life_pages", sequence.life_pages);
  visit("host_pages", sequence.host_pages);
  visit("table_pages", sequence.table_pages);
  visit("selector", sequence.selector);
  visit("num_segments", sequence.num_segments);
  visit("shared_segments", sequence.shared_segments);
  visit("expected_pages", sequence.expected_pages);
  visit("fork_pages", sequence.fork_pages);
  visit("prefix", sequence.prefix);
  visit("shared_pages", sequence.shared_pages);
  visit("needs_all_layers", sequence.needs_all_layers);
  visit("first_scored", sequence.first_scored);
  visit("end_scored", sequence.end_scored);
}

template <typename Item, typename Visit>
void VisitItem(Item& item, const Visit& visit) {
  visit("sequence", item.sequence);
  visit("first_token", item.first_token);
  visit("num_tokens", item.num_tokens);
  visit("first_layer", item.first_layer);
  visit("end_layer", item.end_layer);
  visit("samples", item.samples);
  visit("layerwise", item.layerwise);
  visit("first_scored", item.first_scored);
  visit("num_scored", item.num_scored);
}

template <typename T>
Json JsonOf(const T& value) {
  return value;
}
Json JsonOf(SequenceId id) { return id.value(); }
template <typename T>
Json JsonOf(const std::optional<T>& value) {
  return value ? JsonOf(*value) : Json();
}
Json JsonOf(const std::vector<SequenceId>& ids) {
  Json list = Json::array();
  for (const SequenceId id : ids) list.push_back(id.value());
  return list;
}

// Adds to `object` what is not as `usual` has it.
auto Writer(Json& object) {
  return [&object](const char* name, const auto& value) {
    if (value != std::remove_cvref_t<decltype(value)>()) {
      object[name] = JsonOf(value);
    }
  };
}

void Read(const Json& json, SequenceId& id) {
  id = SequenceId(json.get<uint64_t>());
}
template <typename T>
  requires std::is_arithmetic_v<T>
void Read(const Json& json, T& value) {
  value = json.get<T>();
}
template <typename T>
void Read(const Json& json, std::vector<T>& values) {
  for (const Json& value : json) Read(value, values.emplace_back());
}
template <typename T>
void Read(const Json& json, std::optional<T>& value) {
  Read(json, value.emplace());
}

// Takes from `object` what it has.
auto Reader(const Json& object) {
  return [&object](const char* name, auto& value) {
    const auto found = object.find(name);
    value = {};
    if (found != object.end()) Read(*found, value);
  };
}

template <typename Schedule, typename Visit>
void VisitSchedule(Schedule& schedule, const Visit& visit) {
  visit("admitted", schedule.admitted);
  visit("overtaken", schedule.overtaken);
  visit("num_lacking_pages", schedule.num_lacking_pages);
  visit("num_spare_pages", schedule.num_spare_pages);
}

// Throws what nlohmann throws.
RecordedSchedule ScheduleOf(const Json& line) {
  RecordedSchedule recorded;
  ScheduleInput& input = recorded.input;
  VisitLimits(input.limits, Reader(line.at("limits")));
  VisitCost(input.cost, Reader(line.at("cost")));
  input.admits = line.at("admits").get<bool>();
  input.repeated_pages = line.at("repeated_pages").get<int64_t>();
  // Where there are no selectors there are none.
  Read(line.value("num_segments", Json::array()), input.num_segments);
  for (const Json& sequence : line.at("sequences")) {
    VisitSequence(input.sequences.emplace_back(), Reader(sequence));
  }
  const Json& schedule = line.at("schedule");
  VisitSchedule(recorded.schedule, Reader(schedule));
  for (const Json& item : schedule.at("plan")) {
    VisitItem(recorded.schedule.plan.items.emplace_back(), Reader(item));
  }
  return recorded;
}

}  // namespace

std::string ScheduleLine(const ScheduleInput& input, const Schedule& schedule) {
  Json line = {
      {"limits", Json::object()},   {"cost", Json::object()},
      {"admits", input.admits},     {"repeated_pages", input.repeated_pages},
      {"sequences", Json::array()}, {"schedule", {{"plan", Json::array()}}}};
  VisitLimits(input.limits, Writer(line["limits"]));
  VisitCost(input.cost, Writer(line["cost"]));
  if (!input.num_segments.empty()) line["num_segments"] = input.num_segments;
  for (const SequenceSnapshot& sequence : input.sequences) {
    VisitSequence(sequence, Writer(line["sequences"].emplace_back()));
  }
  VisitSchedule(schedule, Writer(line["schedule"]));
  for (const StepItem& item : schedule.plan.items) {
    VisitItem(item, Writer(line["schedule"]["plan"].emplace_back()));
  }
  return line.dump();
}

Result<RecordedSchedule> ParseScheduleLine(std::string_view line) {
  try {
    return ScheduleOf(Json::parse(line));
  } catch (const Json::exception& error) {
    return MakeError(ErrorCode::kCorrupt,
                     "not a line of a scheduler's trace: {}", error.what());
  }
}

}  // namespace winnow
