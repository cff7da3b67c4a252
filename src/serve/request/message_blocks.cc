#include "serve/request/message_blocks.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "serve/request/request_fields.h"
#include "serve/request/written_call.h"
#include "text/grammar/json_slices.h"

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

// Of a call, or of the call that a result is of; empty: it has none.
std::string IdOf(const json& block) {
  if (!block.is_object()) return {};
  const char* name = IsResult(block) ? "tool_use_id" : "id";
  return CallIdText(block.value(name, json()));
}

// The ids of the calls whose results are among the blocks.
std::unordered_set<std::string> AnsweredIn(const json& blocks) {
  std::unordered_set<std::string> ids;
  for (const json& block : blocks) {
    if (IsResult(block)) ids.insert(IdOf(block));
  }
  return ids;
}

// A result that has members of its own, as they are written, without what only
// a server can read.
std::string MembersText(std::string_view written) {
  constexpr std::string_view kLeftOut[] = {
      "type", "encrypted_stdout", "encrypted_content", "cache_control"};
  std::string text;
  for (const auto& [name, value] : MembersOf(written)) {
    const bool is_told =
        std::ranges::find(kLeftOut, UnescapedName(name)) == std::end(kLeftOut);
    if (!is_told) continue;
    text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name, value);
  }
  return "{" + text + "}";
}

}  // namespace

Result<MessageBlocks> BlocksReader::BlocksOf(const json& content,
                                             std::string_view written,
                                             const std::string& field,
                                             bool is_asked) {
  MessageBlocks blocks;
  if (content.is_string()) {
    blocks.list = json::array({{{"type", "text"}, {"text", content}}});
    blocks.written = {written};
    return blocks;
  }
  if (!content.is_array() && is_asked) {
    return WrongField(field, "a string or a list of blocks");
  }
  if (content.is_object()) {
    blocks.list = json::array({content});
    blocks.written = {written};
    return blocks;
  }
  if (!content.is_array()) {
    parts_.LeaveOut("");
    blocks.list = json::array();
    return blocks;
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

std::string BlocksReader::TextIn(const json& block, const char* name) {
  const json value = block.value(name, json());
  if (value.is_string()) return value.get<std::string>();
  parts_.LeaveOut(fmt::format("{}.{}", TypeOf(block).get<std::string>(), name));
  return {};
}

std::string BlocksReader::IdIn(const json& block, const char* name) {
  const std::string id = CallIdText(block.value(name, json()));
  return id.empty() ? TextIn(block, name) : id;
}

Status BlocksReader::AddResult(const json& block, std::string_view written,
                               const std::string& field, bool is_asked) {
  ChatTurn turn = {.role = "tool"};
  if (is_asked) {
    RETURN_IF_ERROR(StringIn(block, field, "tool_use_id"));
  }
  turn.tool_call_id = IdIn(block, "tool_use_id");
  json content = block.value("content", json());
  std::string_view text = MemberOf(written, "content");
  std::string name = field + ".content";
  std::string address;
  if (TypeOf(content) == "web_fetch_result") {
    const json url = content.value("url", json());
    if (url.is_string()) address = url.get<std::string>() + "\n";
    const json page = content.value("content", json());
    content = page.is_null() ? json() : json::array({page});
    text = MemberOf(text, "content");
    name += ".content";
  } else if (content.is_object() && content.contains("tool_references")) {
    content = json(content["tool_references"]);
    text = MemberOf(text, "tool_references");
    name += ".tool_references";
  }
  if (content.is_object()) {
    turn.content = MembersText(text);
  } else {
    ASSIGN_OR_RETURN(const std::string told,
                     ResultText(content, text, name, parts_));
    turn.content = address + told;
  }
  turns_.push_back(std::move(turn));
  return Ok{};
}

Status BlocksReader::AddUser(const MessageBlocks& blocks,
                             const std::string& field, bool is_asked) {
  PartsReader& parts = is_asked ? asked_parts_ : parts_;
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
    if (is_asked && !block.is_object()) return WrongField(name, "an object");
    if (!IsResult(block)) {
      RETURN_IF_ERROR(parts.Add(block, name, said));
      continue;
    }
    end_text();
    RETURN_IF_ERROR(AddResult(block, blocks.written[i], name, is_asked));
    any_turn = true;
  }
  const bool tells_nothing =
      !any_turn && !said.any_told && !said.untold_field.empty();
  if (is_asked && tells_nothing) return NothingTold(said.untold_field);
  end_text();
  if (!any_turn) AddText("user", "");
  return Ok{};
}

void BlocksReader::AddThought(const json& block, ChatTurn& turn) {
  const std::string piece = TextIn(block, "thinking");
  if (piece.empty()) return;
  if (turn.thought.is_null()) {
    turn.thought = piece;
  } else {
    turn.thought.get_ref<std::string&>() += "\n" + piece;
  }
}

void BlocksReader::AddCall(const json& block, std::string_view written,
                           ChatTurn& turn) {
  const WrittenCall call = {
      .id = IdIn(block, "id"),
      .name = TextIn(block, "name"),
      .arguments = ArgumentsText(block.value("input", json()),
                                 MemberOf(written, "input"))};
  turn.calls.push_back(CallJson(call, limits_));
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
    const json type = TypeOf(block);
    const std::string call_id = IdOf(block);
    if (type == "thinking") {
      AddThought(block, turn);
    } else if (type == "tool_use" ||
               (RunsOnServer(type) && answered.contains(call_id))) {
      AddCall(block, blocks.written[i], turn);
      called.insert(call_id);
    } else if (IsResult(block) && called.contains(call_id)) {
      end_turn();
      RETURN_IF_ERROR(AddResult(block, blocks.written[i], name,
                                /*is_asked=*/false));
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
