// PartsReader: the text in a message's content, whichever route's parts it has.
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
  nlohmann::json text = nullptr;  // or a string
  // Of the first part that was left out, where nothing else is told: the text
  // then names in brackets what was there, so that the turn is not empty.
  std::string untold_field = {};
};

// The text of several parts. A part that is a text of its own, a document for
// one, begins and ends a line.
struct PartsText {
  std::string text = {};
  std::string untold = {};  // in brackets, what was left out
  std::string untold_field = {};
  bool any_told = false;
  bool ends_block = false;  // its last part is a text of its own
};

// Gives the text of a part: of a refusal, a document of text, a search's result
// and a tool's name too. Leaves out and names every other kind: images, files,
// sound, and kinds that are not known. Changes only `left_out`.
class PartsReader {
 public:
  // Of what is asked now, and of what was said before.
  enum class Turn { kAsked, kEarlier };

  // `place` begins the names of what is left out: "messages.content".
  // REQUIRES: `left_out` outlives this.
  PartsReader(std::string place, LeftOutKinds& left_out,
              Turn turn = Turn::kEarlier)
      : place_(std::move(place)), left_out_(left_out), turn_(turn) {}

  // A string, a list of parts whose texts are put together, or null. Of what is
  // asked, fails on anything else, and on a part that lacks what its kind has.
  // Of an earlier turn this is left out and named, and never fails; texts and
  // parts that stand where a list or a kind should be are told.
  Result<ToldContent> Read(const nlohmann::json& content,
                           const std::string& field);
  // A part behind those before it.
  Status Add(const nlohmann::json& part, const std::string& field,
             PartsText& parts);
  static ToldContent Told(PartsText parts);
  // "PLACE.TYPE" is left out; empty: what has no type.
  void LeaveOut(const std::string& type) {
    left_out_.Add(type.empty() ? place_ : place_ + "." + type);
  }
  bool is_asked() const { return turn_ == Turn::kAsked; }

 private:
  using OptionalText = std::optional<std::string>;

  // None where it is left out.
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

// A tool's result: a string, parts, or any other value as it is written.
Result<std::string> ResultText(const nlohmann::json& content,
                               std::string_view written,
                               const std::string& field, PartsReader& reader);

// "FIELD.type: must be ...": of a message in which nothing can be told.
Error NothingTold(const std::string& field);

// A list of texts as templates read parts, as JSON; empty where the content is
// no list, or one of its parts is of another kind.
std::string TextPartsJson(const nlohmann::json& content);

// The member `name`. Fails where it is no string.
Result<std::string> StringIn(const nlohmann::json& object,
                             const std::string& field, const char* name);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_CONTENT_PARTS_H_
