// BlocksReader: turns the content of Anthropic's messages into a chat.
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

// A message's content as blocks, each also as written.
struct MessageBlocks {
  nlohmann::json list;
  std::vector<std::string_view> written;
};

// Adds the turns of each message. A tool's result is a turn of its own, between
// the texts around it. Anthropic's servers put a call and its result into one
// assistant message. Such a pair becomes a call and a result; a call alone is
// left out. Blocks without text are left out and named, and so are members that
// a block of an earlier turn lacks.
class BlocksReader {
 public:
  // REQUIRES: both outlive this.
  BlocksReader(const JsonLimits& limits, LeftOutKinds& left_out)
      : limits_(limits),
        parts_("messages.content", left_out),
        asked_parts_("messages.content", left_out, PartsReader::Turn::kAsked) {}

  // `is_asked`: the user's current question. It then fails on a content that is
  // neither a string nor a list; an earlier turn's is left out.
  Result<MessageBlocks> BlocksOf(const nlohmann::json& content,
                                 std::string_view written,
                                 const std::string& field, bool is_asked);

  // `is_asked`: the last message, of which some text must remain.
  Status AddUser(const MessageBlocks& blocks, const std::string& field,
                 bool is_asked);
  Status AddAssistant(const MessageBlocks& blocks, const std::string& field);
  Status AddSystem(const nlohmann::json& content, const std::string& field);

  // Returns all turns and leaves none.
  std::vector<ChatTurn> TakeTurns() { return std::exchange(turns_, {}); }

 private:
  // Joins adjacent texts of one role into one turn.
  void AddText(const std::string& role, const std::string& text,
               const nlohmann::json& thought = nullptr);
  Status AddResult(const nlohmann::json& block, std::string_view written,
                   const std::string& field, bool is_asked);
  void AddCall(const nlohmann::json& block, std::string_view written,
               ChatTurn& turn);
  void AddThought(const nlohmann::json& block, ChatTurn& turn);
  // A member; empty, and named as left out, if it is not a string.
  std::string TextIn(const nlohmann::json& block, const char* name);
  std::string IdIn(const nlohmann::json& block, const char* name);
  void EndAssistant(ChatTurn& turn);

  const JsonLimits& limits_;
  PartsReader parts_, asked_parts_;
  std::vector<ChatTurn> turns_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_MESSAGE_BLOCKS_H_
