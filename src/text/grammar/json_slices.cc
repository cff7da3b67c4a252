#include "text/grammar/json_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace winnow {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Where a reader stands in a text. In one that is not valid it comes to the end
// too.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  // The next character that is no white space; NUL at the end.
  char Peek() {
    at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Skip(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  // The text of the value that begins here.
  std::string_view TakeValue() {
    const char first = Peek();
    const size_t begin = at_;
    if (first == '"') {
      SkipString();
    } else if (first == '{' || first == '[') {
      SkipNested();
    } else {
      at_ = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
    }
    return text_.substr(begin, at_ - begin);
  }

 private:
  void SkipString() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    at_ = std::min(at_ + 1, text_.size());
  }
  void SkipNested() {
    int depth = 0;
    do {
      const char c = text_[at_];
      if (c == '"') {
        SkipString();
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++at_;
    } while (depth > 0 && at_ < text_.size());
  }

  std::string_view text_;
  size_t at_ = 0;
};

// A name as it is meant.
std::string Unescaped(std::string_view written) {
  const auto text =
      nlohmann::json::parse(fmt::format("\"{}\"", written), nullptr,
                            /*allow_exceptions=*/false);
  return text.is_string() ? text.get<std::string>() : std::string();
}

}  // namespace

std::vector<JsonMember> MembersOf(std::string_view object) {
  std::vector<JsonMember> members;
  Cursor cursor(object);
  if (!cursor.Skip('{')) return members;
  while (cursor.Peek() != '}') {
    if (!members.empty() && !cursor.Skip(',')) break;
    const std::string_view name = cursor.TakeValue();
    if (name.size() < 2 || !cursor.Skip(':')) break;
    members.emplace_back(name.substr(1, name.size() - 2), cursor.TakeValue());
  }
  return members;
}

std::vector<std::string_view> ElementsOf(std::string_view array) {
  std::vector<std::string_view> elements;
  Cursor cursor(array);
  if (!cursor.Skip('[')) return elements;
  while (cursor.Peek() != ']') {
    if (!elements.empty() && !cursor.Skip(',')) break;
    elements.push_back(cursor.TakeValue());
  }
  return elements;
}

std::string_view MemberOf(std::string_view object, std::string_view name) {
  for (const auto& [written, value] : MembersOf(object)) {
    const bool is_plain = written.find('\\') == std::string_view::npos;
    if (is_plain ? written == name : Unescaped(written) == name) return value;
  }
  return "null";
}

}  // namespace winnow
