// BlocksReader: turns of a chat from the content of Anthropic's messages.
#ifndef WINNOW_SERVE_REQUEST_MESSAGE_BLOCKS_H_
#define WINNOW_SERVE_REQUEST_MESSAGE_BLOCKS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/config/json_fields.h"
#include "serve/request/chat_messages.h"
#include "serve/request/content_parts.h"

namespace winnow {

// A message's content as blocks, each as it stands in the request too.
struct MessageBlocks {
  nlohmann::json list;
  std::vector<std::string_view> written;
};

// Adds the turns of each message to the turns before it. A tool's result is a
// turn of its own, between the texts around it. Anthropic's servers put a call
// and its result into one message of the assistant's: such a pair becomes a
// call and a result, and a call alone is left out. Blocks without text are left
// out and named; so is what a block of an earlier turn lacks.
class BlocksReader {
 public:
  // REQUIRES: both outlive this.
  BlocksReader(const JsonLimits& limits, LeftOutKinds& left_out)
      : limits_(limits),
        parts_("messages.content", left_out),
        asked_parts_("messages.content", left_out, PartsReader::Turn::kAsked) {}

  // `is_asked`: now, by the user. Fails then on a content that is neither a
  // string nor a list; an earlier turn's is left out.
  Result<MessageBlocks> BlocksOf(const nlohmann::json& content,
                                 std::string_view written,
                                 const std::string& field, bool is_asked);

  // `is_asked`: it is the last of all messages: something of it must be told.
  Status AddUser(const MessageBlocks& blocks, const std::string& field,
                 bool is_asked);
  Status AddAssistant(const MessageBlocks& blocks, const std::string& field);
  Status AddSystem(const nlohmann::json& content, const std::string& field);

  // All of them; there are none afterwards.
  std::vector<ChatTurn> TakeTurns() { return std::exchange(turns_, {}); }

 private:
  // Texts of one role in a row become one turn.
  void AddText(const std::string& role, const std::string& text,
               const nlohmann::json& thought = nullptr);
  Status AddResult(const nlohmann::json& block, std::string_view written,
                   const std::string& field, bool is_asked);
  void AddCall(const nlohmann::json& block, std::string_view written,
               ChatTurn& turn);
  void AddThought(const nlohmann::json& block, ChatTurn& turn);
  // A member; empty, and named, where it is no string.
  std::string TextIn(const nlohmann::json& block, const char* name);
  std::string IdIn(const nlohmann::json& block, const char* name);
  void EndAssistant(ChatTurn& turn);

  const JsonLimits& limits_;
  PartsReader parts_, asked_parts_;
  std::vector<ChatTurn> turns_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_MESSAGE_BLOCKS_H_
