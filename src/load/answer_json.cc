#include "load/answer_json.h"

#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using nlohmann::json;

constexpr size_t kMostWords = 300;

json Parse(std::string_view text) {
  return json::parse(text, /*callback=*/nullptr, /*allow_exceptions=*/false);
}

// `value` of an object, or null.
const json& Field(const json& object, const char* name) {
  static const json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::string TextOf(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::optional<int64_t> CountOf(const json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<int64_t>();
}

// One line of what may be anything.
std::string Shortened(std::string_view text) {
  std::string line;
  for (const char c : text.substr(0, kMostWords)) {
    line += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return text.size() > kMostWords ? line + "..." : line;
}

// "error" is a text with some, an object with others.
std::string ErrorText(const json& error) {
  const std::string message = TextOf(Field(error, "message"));
  if (!message.empty()) return Shortened(message);
  const std::string text = TextOf(error);
  return Shortened(
      text.empty() ? error.dump(-1, ' ', false, json::error_handler_t::replace)
                   : text);
}

Error NotAsExpected(std::string_view expected, std::string_view found) {
  return MakeError(ErrorCode::kCorrupt, "must be {}, is {}", expected,
                   Shortened(found));
}

void ReadChoice(AnswerStyle style, bool streamed, const json& choice,
                AnswerPiece* piece) {
  piece->finished = !Field(choice, "finish_reason").is_null();
  if (style == AnswerStyle::kCompletion) {
    piece->text = TextOf(Field(choice, "text"));
    piece->has_tokens = !piece->text.empty();
    return;
  }
  const json& message = Field(choice, streamed ? "delta" : "message");
  piece->text = TextOf(Field(message, "content"));
  piece->has_tokens = !piece->text.empty() ||
                      !TextOf(Field(message, "reasoning_content")).empty() ||
                      !TextOf(Field(message, "reasoning")).empty() ||
                      !Field(message, "tool_calls").empty();
}

}  // namespace

Result<AnswerPiece> ReadAnswerPiece(AnswerStyle style, bool streamed,
                                    std::string_view text) {
  const json answer = Parse(text);
  if (!answer.is_object()) return NotAsExpected("a JSON object", text);
  const json& error = Field(answer, "error");
  if (!error.is_null()) return Error{ErrorCode::kIo, ErrorText(error)};
  const json& choices = Field(answer, "choices");
  const json& usage = Field(answer, "usage");
  // The last event of a stream may have nothing but usage.
  const bool has_choice = choices.is_array() && !choices.empty();
  if (!has_choice && !(streamed && usage.is_object())) {
    return NotAsExpected("an answer with choices", text);
  }
  AnswerPiece piece;
  if (has_choice) ReadChoice(style, streamed, choices.front(), &piece);
  piece.prompt_tokens = CountOf(Field(usage, "prompt_tokens"));
  piece.completion_tokens = CountOf(Field(usage, "completion_tokens"));
  piece.cached_tokens =
      CountOf(Field(Field(usage, "prompt_tokens_details"), "cached_tokens"));
  return piece;
}

std::string ErrorWords(std::string_view body) {
  const json answer = Parse(body);
  for (const char* name : {"error", "message", "detail"}) {
    const json& words = Field(answer, name);
    if (!words.is_null()) return ErrorText(words);
  }
  return Shortened(body);
}

std::string FirstModelName(std::string_view text) {
  const json list = Parse(text);
  const json& data = Field(list, "data");
  if (!data.is_array() || data.empty()) return {};
  return TextOf(Field(data.front(), "id"));
}

}  // namespace winnow
