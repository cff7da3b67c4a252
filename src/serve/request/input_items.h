// InputReader: turns of a chat from the items of a request for a response.
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

// Adds each item to the turns before it. Every kind of call becomes the call of
// a function: a custom tool's text is its "input", and a shell's action is its
// arguments. A call that a service ran needs its result beside it. References,
// encrypted items and kinds that are not known are left out and named. So is
// what an item lacks, or has as another type.
class InputReader {
 public:
  // REQUIRES: both outlive this.
  InputReader(const JsonLimits& limits, LeftOutKinds& left_out)
      : limits_(limits), left_out_(left_out) {}

  // `instructions`: before all items. Empty: none.
  void AddInstructions(const std::string& instructions);
  void AddUser(const std::string& text);
  // `written`: the item as it stands in the request; `is_last` of all of them.
  Status AddItem(std::string_view written, const std::string& field,
                 bool is_last);

  // Whether anything of the items is told.
  bool tells_any() const { return tells_any_; }
  // All of them; there are none afterwards.
  std::vector<ChatTurn> TakeTurns() { return std::exchange(turns_, {}); }

 private:
  // An item: as it nests, as it is written, its name.
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
  // The member `name`; empty, and named, where it is no string.
  std::string TextIn(const Item& item, const char* name);
  std::string IdOf(const Item& item);
  // Each of some kinds; false: it is of none of theirs.
  bool AddCall(const Item& item, const std::string& type);
  Result<bool> AddResult(const Item& item, const std::string& type);
  bool AddHosted(const Item& item, const std::string& type);

  // Of the assistant's turn, if that came last.
  void PushCall(const Item& item, std::string name, std::string arguments);
  void PushResult(std::string call_id, std::string text);

  const JsonLimits& limits_;
  LeftOutKinds& left_out_;
  std::vector<ChatTurn> turns_;
  bool tells_any_ = false;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_INPUT_ITEMS_H_
