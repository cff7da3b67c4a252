#include "engine/schedule/schedule_trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>
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
  visit("chunk_ms", cost.chunk_ms);
  visit("row_ms", cost.row_ms);
  visit("read_ms", cost.read_ms);
  visit("single_row_ms", cost.single_row_ms);
  visit("single_read_ms", cost.single_read_ms);
  visit("margin", cost.margin);
  visit("most_rows", cost.most.rows);
  visit("most_reads", cost.most.reads);
}

// All that a victim is chosen by.
template <typename Snapshot, typename Visit>
void VisitRunning(Snapshot& sequence, const Visit& visit) {
  visit("id", sequence.id);
  visit("layerwise", sequence.layerwise);
  visit("admitted", sequence.admitted);
  visit("priority", sequence.priority);
  visit("num_overtaken", sequence.num_overtaken);
  visit("fork_pages", sequence.fork_pages);
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
  visit("expected_table_pages", sequence.expected_table_pages);
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

template <typename Schedule, typename Visit>
void VisitSchedule(Schedule& schedule, const Visit& visit) {
  visit("admitted", schedule.admitted);
  visit("overtaken", schedule.overtaken);
  visit("num_lacking_pages", schedule.num_lacking_pages);
  visit("num_spare_pages", schedule.num_spare_pages);
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

// Adds all to `object`.
auto Writer(Json& object) {
  return [&object](const char* name, const auto& value) {
    object[name] = JsonOf(value);
  };
}

template <typename T, typename VisitFields>
Json FieldsOfNew(const VisitFields& visit_fields) {
  Json object;
  const T fresh;
  visit_fields(fresh, Writer(object));
  return object;
}
const Json& NewSequence() {
  static const Json fields = FieldsOfNew<SequenceSnapshot>(
      [](const auto& of, const auto& visit) { VisitSequence(of, visit); });
  return fields;
}
const Json& NewItem() {
  static const Json fields = FieldsOfNew<StepItem>(
      [](const auto& of, const auto& visit) { VisitItem(of, visit); });
  return fields;
}
const Json& NewSchedule() {
  static const Json fields = FieldsOfNew<Schedule>(
      [](const auto& of, const auto& visit) { VisitSchedule(of, visit); });
  return fields;
}

// Adds to `object` what is not as a new one has it.
auto ShortWriter(Json& object, const Json& fields) {
  return [&object, &fields](const char* name, const auto& value) {
    Json json = JsonOf(value);
    if (json != fields.at(name)) object[name] = std::move(json);
  };
}

// Thrown and caught in this file.
struct Missing {
  std::string field;
};

const Json& FieldOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) throw Missing{name};
  return *found;
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

// Takes all from the object that is `name` of `line`.
auto Reader(const Json& line, const char* name) {
  return [&object = FieldOf(line, name), name](const char* field, auto& value) {
    const auto found = object.find(field);
    if (found == object.end()) throw Missing{fmt::format("{}.{}", name, field)};
    Read(*found, value);
  };
}

// Takes from `object` what it has.
auto ShortReader(const Json& object) {
  return [&object](const char* name, auto& value) {
    const auto found = object.find(name);
    if (found != object.end()) Read(*found, value);
  };
}

int64_t LeftNs(std::chrono::steady_clock::duration left) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
}

Json LineOf(const char* decision) {
  return {{"format", kScheduleTraceFormat},
          {"decision", decision},
          {"sequences", Json::array()}};
}

struct WriteLine {
  Json operator()(const ScheduleDecision& made) const {
    const auto& [input, schedule] = made;
    Json line = LineOf("schedule");
    line["admits"] = input.admits;
    line["repeated_pages"] = input.repeated_pages;
    line["num_segments"] = input.num_segments;
    VisitLimits(input.limits, Writer(line["limits"]));
    VisitCost(input.cost, Writer(line["cost"]));
    for (const SequenceSnapshot& sequence : input.sequences) {
      VisitSequence(sequence, ShortWriter(line["sequences"].emplace_back(),
                                          NewSequence()));
    }
    Json& decided = line["schedule"];
    decided["plan"] = Json::array();
    VisitSchedule(schedule, ShortWriter(decided, NewSchedule()));
    for (const StepItem& item : schedule.plan.items) {
      VisitItem(item, ShortWriter(decided["plan"].emplace_back(), NewItem()));
    }
    return line;
  }
  Json operator()(const VictimDecision& made) const {
    Json line = LineOf("victim");
    for (const SequenceSnapshot& sequence : made.sequences) {
      VisitRunning(sequence, ShortWriter(line["sequences"].emplace_back(),
                                         NewSequence()));
    }
    line["victim"] = JsonOf(made.victim);
    return line;
  }
  Json operator()(const ExpiryDecision& made) const {
    Json line = LineOf("expiry");
    for (const SequenceSnapshot& sequence : made.sequences) {
      line["sequences"].push_back(
          {{"id", sequence.id.value()},
           {"left_ns", LeftNs(*sequence.deadline - made.now)}});
    }
    line["expired"] = JsonOf(made.expired);
    return line;
  }
};

ScheduleDecision ScheduleOf(const Json& line) {
  ScheduleDecision made;
  ScheduleInput& input = made.input;
  VisitLimits(input.limits, Reader(line, "limits"));
  VisitCost(input.cost, Reader(line, "cost"));
  Read(FieldOf(line, "admits"), input.admits);
  Read(FieldOf(line, "repeated_pages"), input.repeated_pages);
  Read(FieldOf(line, "num_segments"), input.num_segments);
  for (const Json& sequence : FieldOf(line, "sequences")) {
    VisitSequence(input.sequences.emplace_back(), ShortReader(sequence));
  }
  const Json& schedule = FieldOf(line, "schedule");
  VisitSchedule(made.schedule, ShortReader(schedule));
  for (const Json& item : FieldOf(schedule, "plan")) {
    VisitItem(made.schedule.plan.items.emplace_back(), ShortReader(item));
  }
  return made;
}

VictimDecision VictimOf(const Json& line) {
  VictimDecision made;
  for (const Json& sequence : FieldOf(line, "sequences")) {
    VisitRunning(made.sequences.emplace_back(), ShortReader(sequence));
  }
  const Json& victim = FieldOf(line, "victim");
  if (!victim.is_null()) Read(victim, made.victim);
  return made;
}

ExpiryDecision ExpiryOf(const Json& line) {
  ExpiryDecision made;
  for (const Json& json : FieldOf(line, "sequences")) {
    SequenceSnapshot& sequence = made.sequences.emplace_back();
    Read(FieldOf(json, "id"), sequence.id);
    int64_t left_ns = 0;
    Read(FieldOf(json, "left_ns"), left_ns);
    sequence.deadline = made.now + std::chrono::nanoseconds(left_ns);
  }
  Read(FieldOf(line, "expired"), made.expired);
  return made;
}

// Throws Missing, and what nlohmann throws.
Result<Decision> DecisionOf(const Json& line) {
  const Json& format = FieldOf(line, "format");
  if (format != kScheduleTraceFormat) {
    return MakeError(ErrorCode::kCorrupt, "field format: must be {}, is {}",
                     kScheduleTraceFormat, format.dump());
  }
  const Json& kind = FieldOf(line, "decision");
  if (kind == "schedule") {
    ScheduleDecision made = ScheduleOf(line);
    const auto num_selectors = std::ssize(made.input.num_segments);
    for (const SequenceSnapshot& sequence : made.input.sequences) {
      if (sequence.num_segments == 0 ||
          (sequence.selector >= 0 && sequence.selector < num_selectors)) {
        continue;
      }
      return MakeError(ErrorCode::kCorrupt,
                       "field sequences.selector: must be in [0, {}), is {}",
                       num_selectors, sequence.selector);
    }
    return Decision(std::move(made));
  }
  if (kind == "victim") return Decision(VictimOf(line));
  if (kind == "expiry") return Decision(ExpiryOf(line));
  return MakeError(ErrorCode::kCorrupt,
                   "field decision: must be schedule, victim or expiry, is {}",
                   kind.dump());
}

}  // namespace

std::string DecisionLine(const Decision& decision) {
  return std::visit(WriteLine(), LookedAt(decision)).dump();
}

Result<Decision> ParseDecisionLine(std::string_view line) {
  try {
    return DecisionOf(Json::parse(line));
  } catch (const Missing& missing) {
    return MakeError(ErrorCode::kCorrupt, "field {}: is missing",
                     missing.field);
  } catch (const Json::exception& error) {
    return MakeError(ErrorCode::kCorrupt,
                     "not a line of a scheduler's trace: {}", error.what());
  }
}

Result<std::vector<Decision>> ParseScheduleTrace(std::string_view text) {
  std::vector<Decision> decisions;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    Result<Decision> decision = ParseDecisionLine(text.substr(0, end));
    if (!decision.ok()) {
      return MakeError(ErrorCode::kCorrupt, "line {}: {}", decisions.size() + 1,
                       decision.error().message);
    }
    decisions.push_back(*std::move(decision));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return decisions;
}

}  // namespace winnow
