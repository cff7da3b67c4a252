#include "serve/request/input_items.h"

#include <algorithm>
#include <iterator>

#include "serve/request/content_parts.h"
#include "serve/request/request_fields.h"
#include "serve/request/written_call.h"
#include "text/grammar/json_slices.h"

namespace winnow {
namespace {

using nlohmann::json;

// What names an item without a type.
std::string KindOf(const json& item) {
  const json type = item.value("type", json());
  if (type.is_string()) return type.get<std::string>();
  const bool refers = item.contains("id") && !item.contains("role");
  return refers ? "item_reference" : "message";
}

// Empty where it is no string.
std::string TextOr(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

// {"NAME": VALUE}, as it is written.
std::string ObjectOf(std::string_view name, std::string_view written) {
  return fmt::format("{{\"{}\":{}}}", name, written);
}

// A kind of call whose arguments stand in a member of the item, and the name
// that the tool has for a model.
struct ActionKind {
  std::string_view type;
  const char* tool;
  const char* member;
};
constexpr ActionKind kActionKinds[] = {
    {"local_shell_call", "local_shell", "action"},
    {"shell_call", "shell", "action"},
    {"apply_patch_call", "apply_patch", "operation"},
    {"computer_call", "computer", "action"},
};

bool HasSome(const json& list) { return list.is_array() && !list.empty(); }

}  // namespace

void InputReader::AddInstructions(const std::string& instructions) {
  if (!instructions.empty()) AddSystemText(instructions, turns_);
}

void InputReader::AddUser(const std::string& text) {
  turns_.push_back({.role = "user", .content = text});
  tells_any_ = true;
}

Status InputReader::AddMessage(const Item& item, bool is_last) {
  const json role = item.Value("role");
  constexpr std::string_view kRoles[] = {"system", "developer", "user",
                                         "assistant"};
  const bool known =
      role.is_string() &&
      std::ranges::find(kRoles, role.get<std::string>()) != std::end(kRoles);
  if (!known && (is_last || !role.is_string())) {
    return WrongField(item.field + ".role",
                      "\"system\", \"developer\", \"user\" or \"assistant\"");
  }
  if (!known) {
    left_out_.Add("input.role." + role.get<std::string>());
    return Ok{};
  }
  const std::string field = item.field + ".content";
  const bool is_asked = is_last && role == "user";
  PartsReader parts(
      "input.content", left_out_,
      is_asked ? PartsReader::Turn::kAsked : PartsReader::Turn::kEarlier);
  ASSIGN_OR_RETURN(ToldContent told, parts.Read(item.Value("content"), field));
  const bool tells = told.untold_field.empty();
  if (is_asked && !tells) return NothingTold(told.untold_field);
  // No word is put into the model's own mouth for what is left out.
  if (role != "user" && !tells) told.text = "";
  if (told.text.is_null() && is_asked) {
    return WrongField(field, "a string or a list of parts, is missing");
  }
  const bool is_system = role == "system" || role == "developer";
  const bool is_missing = told.text.is_null();
  if (is_missing && role != "assistant") left_out_.Add("input.content");
  if (is_missing) told.text = "";
  if (is_system && (!tells || is_missing)) return Ok{};
  tells_any_ = true;
  if (is_system) {
    AddSystemText(told.text.get<std::string>(), turns_);
    return Ok{};
  }
  const bool ends_thought = role == "assistant" && !turns_.empty() &&
                            turns_.back().is_thought_alone();
  if (!ends_thought) turns_.push_back({.role = role.get<std::string>()});
  turns_.back().content = std::move(told.text);
  return Ok{};
}

// A thought, which the assistant's next words or calls follow. Where none can
// be read there may be a summary.
Status InputReader::AddThought(const Item& item) {
  PartsReader parts("input.content", left_out_);
  std::string thought;
  for (const char* name : {"content", "summary"}) {
    ASSIGN_OR_RETURN(const ToldContent told,
                     parts.Read(item.Value(name), item.field + "." + name));
    if (told.untold_field.empty()) thought = TextOr(told.text);
    if (!thought.empty()) break;
  }
  if (thought.empty()) {
    if (!TextOr(item.Value("encrypted_content")).empty()) {
      left_out_.Add("input.reasoning.encrypted_content");
    }
    return Ok{};
  }
  tells_any_ = true;
  if (!turns_.empty() && turns_.back().is_thought_alone()) {
    turns_.back().thought.get_ref<std::string&>() += "\n" + thought;
    return Ok{};
  }
  turns_.push_back({.role = "assistant", .thought = thought});
  return Ok{};
}

std::string InputReader::TextIn(const Item& item, const char* name) {
  const json value = item.Value(name);
  if (value.is_string()) return value.get<std::string>();
  left_out_.Add(fmt::format("input.{}.{}", KindOf(item.value), name));
  return {};
}

std::string InputReader::IdOf(const Item& item) {
  for (const char* name : {"call_id", "id"}) {
    const json value = item.Value(name);
    std::string id = CallIdText(value);
    if (!id.empty()) return id;
    if (value.is_null() || value.is_string()) continue;
    left_out_.Add(fmt::format("input.{}.{}", KindOf(item.value), name));
  }
  return {};
}

void InputReader::PushCall(const Item& item, std::string name,
                           std::string arguments) {
  if (turns_.empty() || turns_.back().role != "assistant") {
    turns_.push_back({.role = "assistant"});
  }
  turns_.back().calls.push_back(CallJson({.id = IdOf(item),
                                          .name = std::move(name),
                                          .arguments = std::move(arguments)},
                                         limits_));
  tells_any_ = true;
}

void InputReader::PushResult(std::string call_id, std::string text) {
  turns_.push_back({.role = "tool",
                    .content = std::move(text),
                    .tool_call_id = std::move(call_id)});
  tells_any_ = true;
}

bool InputReader::AddCall(const Item& item, const std::string& type) {
  if (type == "function_call") {
    PushCall(item, TextIn(item, "name"),
             ArgumentsText(item.Value("arguments"),
                           MemberOf(item.written, "arguments")));
    return true;
  }
  if (type == "custom_tool_call") {
    PushCall(item, TextIn(item, "name"), InputObject(TextIn(item, "input")));
    return true;
  }
  if (type == "program") {
    const std::string_view code = MemberOf(item.written, "code");
    PushCall(item, type, ObjectOf("code", code));
    return true;
  }
  const auto kind = std::ranges::find(kActionKinds, type, &ActionKind::type);
  if (kind == std::end(kActionKinds)) return false;
  // Of a computer there may be several.
  constexpr const char* kSeveral = "actions";
  const std::string_view several = MemberOf(item.written, kSeveral);
  PushCall(item, kind->tool,
           several != "null"
               ? ObjectOf(kSeveral, several)
               : std::string(MemberOf(item.written, kind->member)));
  return true;
}

Result<bool> InputReader::AddResult(const Item& item, const std::string& type) {
  std::string id = IdOf(item);
  const json output = item.Value("output");
  if (type == "function_call_output" || type == "custom_tool_call_output") {
    PartsReader parts("input.output", left_out_);
    ASSIGN_OR_RETURN(std::string text,
                     ResultText(output, MemberOf(item.written, "output"),
                                item.field + ".output", parts));
    PushResult(std::move(id), std::move(text));
    return true;
  }
  if (type == "local_shell_call_output" || type == "shell_call_output") {
    // Pieces of what it wrote, and how it ended, are told as they are.
    PushResult(std::move(id),
               ArgumentsText(output, MemberOf(item.written, "output")));
    return true;
  }
  if (type == "apply_patch_call_output") {
    PushResult(std::move(id),
               TextOr(output.is_string() ? output : item.Value("status")));
    return true;
  }
  if (type == "program_output") {
    PushResult(std::move(id), ArgumentsText(item.Value("result"),
                                            MemberOf(item.written, "result")));
    return true;
  }
  if (type != "computer_call_output") return false;
  left_out_.Add("input.output.computer_screenshot");
  PushResult(std::move(id), "[computer_screenshot]");
  return true;
}

// What OpenAI's servers ran: call and result in one item.
bool InputReader::AddHosted(const Item& item, const std::string& type) {
  std::string id = IdOf(item);
  if (type == "mcp_call") {
    const json output = item.Value("output");
    const json error = item.Value("error");
    if (output.is_null() && error.is_null()) return false;
    PushCall(item, TextIn(item, "name"),
             ArgumentsText(item.Value("arguments"),
                           MemberOf(item.written, "arguments")));
    const char* told = output.is_null() ? "error" : "output";
    PushResult(std::move(id),
               ArgumentsText(item.Value(told), MemberOf(item.written, told)));
    return true;
  }
  if (type == "file_search_call" && HasSome(item.Value("results"))) {
    PushCall(item, "file_search",
             ObjectOf("queries", MemberOf(item.written, "queries")));
    PushResult(std::move(id), std::string(MemberOf(item.written, "results")));
    return true;
  }
  const json outputs = item.Value("outputs");
  if (type != "code_interpreter_call" || !HasSome(outputs)) return false;
  std::string logs;
  for (const json& output : outputs) {
    const json text =
        output.is_object() ? output.value("logs", json()) : json();
    logs += text.is_string() ? text.get<std::string>() : "[image]";
    if (!text.is_string()) left_out_.Add("input.outputs.image");
  }
  PushCall(item, "code_interpreter",
           ObjectOf("code", MemberOf(item.written, "code")));
  PushResult(std::move(id), std::move(logs));
  return true;
}

Status InputReader::AddItem(std::string_view written, const std::string& field,
                            bool is_last) {
  const Item item = {json::parse(written), written, field};
  if (!item.value.is_object()) return WrongField(field, "an object");
  const json given = item.Value("type");
  if (!given.is_null() && !given.is_string()) {
    if (is_last) return WrongField(field + ".type", "a string");
    left_out_.Add("input.type");
    return Ok{};
  }
  const std::string type = KindOf(item.value);
  if (type == "message") return AddMessage(item, is_last);
  if (type == "reasoning") return AddThought(item);
  if (AddCall(item, type)) return Ok{};
  ASSIGN_OR_RETURN(const bool is_result, AddResult(item, type));
  if (is_result || AddHosted(item, type)) return Ok{};
  left_out_.Add("input." + type);
  return Ok{};
}

}  // namespace winnow
