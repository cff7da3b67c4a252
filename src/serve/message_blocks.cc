#include "serve/message_blocks.h"

#include <unordered_set>
#include <utility>

#include "serve/request_fields.h"
#include "serve/written_call.h"
#include "text/json_slices.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr std::string_view kResultEnd = "tool_result";

json TypeOf(const json& block) {
  return block.is_object() ? block.value("type", json()) : json();
}

// "tool_result", and those of what a server ran: "web_search_tool_result".
bool IsResult(const json& block) {
  const json type = TypeOf(block);
  return type.is_string() &&
         type.get_ref<const std::string&>().ends_with(kResultEnd);
}

bool RunsOnServer(const json& type) {
  return type == "server_tool_use" || type == "mcp_tool_use";
}

// The ids of the calls whose results are among the blocks.
std::unordered_set<std::string> AnsweredIn(const json& blocks) {
  std::unordered_set<std::string> ids;
  for (const json& block : blocks) {
    if (!IsResult(block)) continue;
    const json id = block.value("tool_use_id", json());
    if (id.is_string()) ids.insert(id.get<std::string>());
  }
  return ids;
}

// A result that has members of its own, without what only a server can read.
std::string MembersText(json result) {
  for (const char* name :
       {"type", "encrypted_stdout", "encrypted_content", "cache_control"}) {
    result.erase(name);
  }
  return result.dump();
}

}  // namespace

Result<MessageBlocks> BlocksReader::BlocksOf(const json& content,
                                             std::string_view written,
                                             const std::string& field) {
  MessageBlocks blocks;
  if (content.is_string()) {
    blocks.list = json::array({{{"type", "text"}, {"text", content}}});
    blocks.written = {written};
    return blocks;
  }
  if (!content.is_array()) {
    return WrongField(field, "a string or a list of blocks");
  }
  blocks.list = content;
  blocks.written = ElementsOf(written);
  return blocks;
}

void BlocksReader::AddText(const std::string& role, const std::string& text,
                           const json& thought) {
  const bool continues = !turns_.empty() && turns_.back().role == role &&
                         turns_.back().calls.empty() && thought.is_null();
  if (!continues) {
    turns_.push_back({.role = role, .content = text, .thought = thought});
    return;
  }
  json& content = turns_.back().content;
  if (text.empty()) return;
  auto& before = content.get_ref<std::string&>();
  before += (before.empty() ? "" : "\n") + text;
}

Status BlocksReader::AddResult(const json& block, const std::string& field) {
  ChatTurn turn = {.role = "tool"};
  ASSIGN_OR_RETURN(turn.tool_call_id, StringIn(block, field, "tool_use_id"));
  json content = block.value("content", json());
  std::string name = field + ".content";
  std::string address;
  if (TypeOf(content) == "web_fetch_result") {
    const json url = content.value("url", json());
    if (url.is_string()) address = url.get<std::string>() + "\n";
    const json page = content.value("content", json());
    content = page.is_null() ? json() : json::array({page});
    name += ".content";
  } else if (content.is_object() && content.contains("tool_references")) {
    content = json(content["tool_references"]);
    name += ".tool_references";
  }
  if (content.is_object()) {
    turn.content = MembersText(std::move(content));
  } else {
    ASSIGN_OR_RETURN(const ToldContent told, parts_.Read(content, name));
    turn.content =
        address +
        (told.text.is_string() ? told.text.get<std::string>() : std::string());
  }
  turns_.push_back(std::move(turn));
  return Ok{};
}

Status BlocksReader::AddUser(const MessageBlocks& blocks,
                             const std::string& field, bool is_last) {
  PartsText said;
  bool any_turn = false;
  const auto end_text = [&] {
    const bool any = said.any_told || !said.untold_field.empty();
    const ToldContent told = PartsReader::Told(std::exchange(said, {}));
    if (any) AddText("user", told.text.get<std::string>());
    any_turn = any_turn || any;
  };
  for (size_t i = 0; i < blocks.list.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", field, i);
    const json& block = blocks.list[i];
    if (!block.is_object()) return WrongField(name, "an object");
    if (!IsResult(block)) {
      RETURN_IF_ERROR(parts_.Add(block, name, said));
      continue;
    }
    end_text();
    RETURN_IF_ERROR(AddResult(block, name));
    any_turn = true;
  }
  const bool tells_nothing =
      !any_turn && !said.any_told && !said.untold_field.empty();
  if (is_last && tells_nothing) return NothingTold(said.untold_field);
  end_text();
  if (!any_turn) AddText("user", "");
  return Ok{};
}

Status BlocksReader::AddThought(const json& block, const std::string& field,
                                ChatTurn& turn) {
  ASSIGN_OR_RETURN(const std::string piece, StringIn(block, field, "thinking"));
  if (piece.empty()) return Ok{};
  if (turn.thought.is_null()) {
    turn.thought = piece;
  } else {
    turn.thought.get_ref<std::string&>() += "\n" + piece;
  }
  return Ok{};
}

Status BlocksReader::AddCall(const json& block, std::string_view written,
                             const std::string& field, ChatTurn& turn) {
  WrittenCall call;
  ASSIGN_OR_RETURN(call.id, StringIn(block, field, "id"));
  ASSIGN_OR_RETURN(call.name, StringIn(block, field, "name"));
  call.arguments =
      ArgumentsText(block.value("input", json()), MemberOf(written, "input"));
  turn.calls.push_back(CallJson(call, limits_));
  return Ok{};
}

// Behind it another of the assistant's may begin.
void BlocksReader::EndAssistant(ChatTurn& turn) {
  ChatTurn ended = std::exchange(turn, {.role = "assistant"});
  if (ended.says_nothing()) return;
  if (!ended.calls.empty()) {
    turns_.push_back(std::move(ended));
    return;
  }
  AddText("assistant",
          ended.content.is_string() ? ended.content.get<std::string>() : "",
          ended.thought);
}

// A template says which thoughts of earlier turns it leaves out.
Status BlocksReader::AddAssistant(const MessageBlocks& blocks,
                                  const std::string& field) {
  const size_t num_before = turns_.size();
  const auto answered = AnsweredIn(blocks.list);
  std::unordered_set<std::string> called;
  ChatTurn turn = {.role = "assistant"};
  PartsText said;
  const auto end_turn = [&] {
    // No word is put into its mouth for what is left out.
    if (!said.text.empty()) turn.content = said.text;
    said = {};
    EndAssistant(turn);
  };
  for (size_t i = 0; i < blocks.list.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", field, i);
    const json& block = blocks.list[i];
    if (!block.is_object()) return WrongField(name, "an object");
    const json type = TypeOf(block);
    const json id = block.value(IsResult(block) ? "tool_use_id" : "id", json());
    const std::string call_id = id.is_string() ? id.get<std::string>() : "";
    if (type == "thinking") {
      RETURN_IF_ERROR(AddThought(block, name, turn));
    } else if (type == "tool_use" ||
               (RunsOnServer(type) && answered.contains(call_id))) {
      RETURN_IF_ERROR(AddCall(block, blocks.written[i], name, turn));
      called.insert(call_id);
    } else if (IsResult(block) && called.contains(call_id)) {
      end_turn();
      RETURN_IF_ERROR(AddResult(block, name));
    } else {
      RETURN_IF_ERROR(parts_.Add(block, name, said));
    }
  }
  end_turn();
  if (turns_.size() == num_before) AddText("assistant", "");
  return Ok{};
}

Status BlocksReader::AddSystem(const json& content, const std::string& field) {
  ASSIGN_OR_RETURN(const ToldContent told, parts_.Read(content, field));
  const bool says_any =
      told.text.is_string() && told.text != "" && told.untold_field.empty();
  if (says_any) AddSystemText(told.text.get<std::string>(), turns_);
  return Ok{};
}

}  // namespace winnow
