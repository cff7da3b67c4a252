// InputReader: turns the items of a /v1/responses request into a chat.
#ifndef WINNOW_SERVE_REQUEST_INPUT_ITEMS_H_
#define WINNOW_SERVE_REQUEST_INPUT_ITEMS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/config/json_fields.h"
#include "serve/request/chat_messages.h"
#include "serve/request/left_out_kinds.h"

namespace winnow {

// Adds each item to the turns. Every kind of call becomes a function call: a
// custom tool's text is its "input", and a shell's action is its arguments. A
// call that a service ran needs its result in the request. References,
// encrypted items and unknown kinds are left out and named. So are members that
// an item lacks, or has as another type.
class InputReader {
 public:
  // REQUIRES: both outlive this.
  InputReader(const JsonLimits& limits, LeftOutKinds& left_out)
      : limits_(limits), left_out_(left_out) {}

  // Adds `instructions` before all items; empty: none.
  void AddInstructions(const std::string& instructions);
  void AddUser(const std::string& text);
  // `written`: the item as it stands in the request. `is_last`: it is the last
  // item.
  Status AddItem(std::string_view written, const std::string& field,
                 bool is_last);

  // True if some item gave text.
  bool tells_any() const { return tells_any_; }
  // Returns all turns and leaves none.
  std::vector<ChatTurn> TakeTurns() { return std::exchange(turns_, {}); }

 private:
  // An item: parsed, as written, and its name.
  struct Item {
    nlohmann::json value;
    std::string_view written;
    const std::string& field;

    nlohmann::json Value(const char* name) const {
      return value.value(name, nlohmann::json());
    }
  };

  Status AddMessage(const Item& item, bool is_last);
  Status AddThought(const Item& item);
  // The member `name`; empty, and named as left out, if it is not a string.
  std::string TextIn(const Item& item, const char* name);
  std::string IdOf(const Item& item);
  // Each reads some kinds; false if the item is of another kind.
  bool AddCall(const Item& item, const std::string& type);
  Result<bool> AddResult(const Item& item, const std::string& type);
  bool AddHosted(const Item& item, const std::string& type);

  // Adds to the assistant's turn if that is the last, or else to a new one.
  void PushCall(const Item& item, std::string name, std::string arguments);
  void PushResult(std::string call_id, std::string text);

  const JsonLimits& limits_;
  LeftOutKinds& left_out_;
  std::vector<ChatTurn> turns_;
  bool tells_any_ = false;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_INPUT_ITEMS_H_
