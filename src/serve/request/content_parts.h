// PartsReader: the text of a message's content, for the parts of all routes.
#ifndef WINNOW_SERVE_REQUEST_CONTENT_PARTS_H_
#define WINNOW_SERVE_REQUEST_CONTENT_PARTS_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "serve/request/left_out_kinds.h"

namespace winnow {

struct ToldContent {
  nlohmann::json text = nullptr;  // null or a string
  // The field of the first part left out, if no text remains. The text then
  // names in brackets the parts left out, so that the turn is not empty.
  std::string untold_field = {};
};

// The text of several parts. A part that is a text of its own, such as a
// document, begins and ends a line.
struct PartsText {
  std::string text = {};
  std::string untold = {};  // the parts left out, in brackets
  std::string untold_field = {};
  bool any_told = false;
  bool ends_block = false;  // its last part is a text of its own
};

// Returns the text of a part, also of a refusal, a text document, a search
// result and a tool's name. Leaves out and names every other kind: images,
// files, sound, and unknown kinds. Changes only `left_out`.
class PartsReader {
 public:
  // The current question, or an earlier turn.
  enum class Turn { kAsked, kEarlier };

  // `place` begins the names of parts left out: "messages.content". REQUIRES:
  // `left_out` outlives this.
  PartsReader(std::string place, LeftOutKinds& left_out,
              Turn turn = Turn::kEarlier)
      : place_(std::move(place)), left_out_(left_out), turn_(turn) {}

  // Reads a string, a list of parts, whose texts are joined, or null. In the
  // current question fails on any other value, and on a part that lacks its
  // kind's members. In an earlier turn leaves these out, names them and never
  // fails; it accepts texts in place of a list and parts without a kind.
  Result<ToldContent> Read(const nlohmann::json& content,
                           const std::string& field);
  // Appends a part.
  Status Add(const nlohmann::json& part, const std::string& field,
             PartsText& parts);
  static ToldContent Told(PartsText parts);
  // Leaves out "PLACE.TYPE"; an empty type means that the part has none.
  void LeaveOut(const std::string& type) {
    left_out_.Add(type.empty() ? place_ : place_ + "." + type);
  }
  bool is_asked() const { return turn_ == Turn::kAsked; }

 private:
  using OptionalText = std::optional<std::string>;

  // None if the part is left out.
  Result<OptionalText> ReadPart(const nlohmann::json& part,
                                const std::string& field);
  Result<OptionalText> ReadDocument(const nlohmann::json& part,
                                    const std::string& field);
  Result<OptionalText> ReadSearchResult(const nlohmann::json& part,
                                        const std::string& field);
  OptionalText ReadFoundPage(const nlohmann::json& part);

  const std::string place_;
  LeftOutKinds& left_out_;
  const Turn turn_;
};

// A tool's result: a string, parts, or any other value as written.
Result<std::string> ResultText(const nlohmann::json& content,
                               std::string_view written,
                               const std::string& field, PartsReader& reader);

// "FIELD.type: must be ...": the error for a message without text.
Error NothingTold(const std::string& field);

// A list of texts in the templates' form of parts, as JSON. Empty if the
// content is not a list, or if a part is of another kind.
std::string TextPartsJson(const nlohmann::json& content);

// The member `name`. Fails if it is not a string.
Result<std::string> StringIn(const nlohmann::json& object,
                             const std::string& field, const char* name);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_CONTENT_PARTS_H_
