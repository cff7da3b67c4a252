#include "serve/request/asked_thoughts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "serve/request/request_fields.h"
#include "text/grammar/json_slices.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr std::string_view kNone = "none";
// OpenAI's, Anthropic's and vLLM's.
constexpr std::string_view kEfforts[] = {kNone,  "minimal", "low", "medium",
                                         "high", "xhigh",   "max"};
constexpr std::string_view kEffortName = "reasoning_effort";

Status ReadShown(const JsonFields& fields, AskedThoughts& asked) {
  ASSIGN_OR_RETURN(asked.shows, fields.Flag("include_reasoning", true));
  return Ok{};
}

}  // namespace

// `{"effort", "summary"}`: of the thoughts there are no summaries.
Status ReadReasoning(const JsonFields& fields, AskedThoughts& asked,
                     std::vector<std::string>& ignored) {
  RETURN_IF_ERROR(ReadShown(fields, asked));
  if (!fields.Has("reasoning")) return Ok{};
  ASSIGN_OR_RETURN(const JsonFields reasoning, fields.Object("reasoning"));
  for (const std::string& name : reasoning.Names()) {
    if (!reasoning.Has(name)) continue;
    const std::string field = "reasoning." + name;
    if (name != "effort") {
      ignored.push_back(field);
      continue;
    }
    ASSIGN_OR_RETURN(const std::string effort, reasoning.Text(name));
    RETURN_IF_ERROR(ReadEffort(effort, field, asked));
  }
  return Ok{};
}

Status ReadEffort(const json& value, const std::string& field,
                  AskedThoughts& asked) {
  const bool known = value.is_string() &&
                     std::ranges::find(kEfforts, value.get<std::string>()) !=
                         std::end(kEfforts);
  if (!known) {
    return WrongField(
        field, fmt::format("one of \"{}\"", fmt::join(kEfforts, "\", \"")));
  }
  asked.effort = value.get<std::string>();
  asked.effort_field = field;
  return Ok{};
}

Status ReadChatThoughts(const JsonFields& fields, AskedThoughts& asked) {
  RETURN_IF_ERROR(ReadShown(fields, asked));
  if (!fields.Has(kEffortName)) return Ok{};
  ASSIGN_OR_RETURN(const std::string effort, fields.Text(kEffortName));
  return ReadEffort(effort, std::string(kEffortName), asked);
}

Status ReadThinking(const JsonFields& fields, AskedThoughts& asked,
                    std::vector<std::string>& ignored) {
  if (!fields.Has("thinking")) return Ok{};
  ASSIGN_OR_RETURN(const JsonFields thinking, fields.Object("thinking"));
  ASSIGN_OR_RETURN(const std::string type, thinking.Text("type"));
  if (type != "enabled" && type != "adaptive" && type != "disabled") {
    return WrongField("thinking.type",
                      "\"enabled\", \"adaptive\" or \"disabled\"");
  }
  asked.thinks = type != "disabled";
  asked.thinks_field = "thinking";
  // Who wants none is told none, whatever the template has the model do.
  asked.shows = *asked.thinks;
  for (const std::string& name : thinking.Names()) {
    if (name != "type" && thinking.Has(name)) {
      ignored.push_back("thinking." + name);
    }
  }
  return Ok{};
}

std::string WithThoughts(const std::string& template_json,
                         const AskedThoughts& asked,
                         const ThoughtStyle& style) {
  std::string more;
  const auto add = [&](std::string_view name, const json& value) {
    if (name.empty() || MemberOf(template_json, name) != "null") return;
    more += fmt::format("\"{}\":{},", name, value.dump());
  };
  if (!asked.effort.empty() && style.reads_effort) {
    add(kEffortName, asked.effort);
  }
  if (asked.thinks) {
    add(style.switch_name, *asked.thinks);
  } else if (!asked.effort.empty()) {
    add(style.switch_name, asked.effort != kNone);
  }
  if (more.empty()) return template_json;
  if (template_json == "{}") more.pop_back();
  return "{" + more + template_json.substr(1);
}

std::vector<std::string> FieldsNotFollowed(const AskedThoughts& asked,
                                           const ThoughtStyle& style) {
  const bool switches = !style.switch_name.empty();
  // What neither has tags nor a switch does not think.
  const bool always_thinks = style.has_tags && !switches;
  std::vector<std::string> fields;
  // Where both are asked for, the switch goes by the other.
  const bool follows_effort = style.reads_effort ||
                              (switches && !asked.thinks) ||
                              (asked.effort == kNone && !always_thinks);
  if (!asked.effort.empty() && !follows_effort) {
    fields.push_back(asked.effort_field);
  }
  if (asked.thinks && !switches && *asked.thinks != style.has_tags) {
    fields.push_back(asked.thinks_field);
  }
  return fields;
}

}  // namespace winnow
