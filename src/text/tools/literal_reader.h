// LiteralReader: reads Python or JSON literals and writes them as JSON.
#ifndef WINNOW_TEXT_TOOLS_LITERAL_READER_H_
#define WINNOW_TEXT_TOOLS_LITERAL_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace winnow {

enum class LiteralKind : uint8_t {
  kNull,
  kBoolean,
  kInteger,
  kNumber,  // with a point or an exponent
  kString,
  kArray,
  kObject,
};

// Reads literals, names and signs from the front of a text, past white space.
// Constants are those of Python and JSON: None and null, True and true. Numbers
// exclude complex ones. Strings may have escapes, be raw, have three quotes, or
// follow one another; bytes and expressions are excluded. Lists, tuples and
// sets become arrays. Keys of dictionaries are strings, numbers, truth values
// or None. Nothing is computed, except a sign before a number.
//
// Views the text. A byte costs one step, and nesting is bounded
// (kMaxCallDepth).
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  // Appends the next literal to `json`. None if there is no literal; `json` is
  // then undefined.
  std::optional<LiteralKind> TakeLiteral(std::string& json);
  // Takes the sign if it comes next.
  bool Take(char sign);
  // Takes letters, digits, "_", "-", "." and characters beyond ASCII; may be
  // empty.
  std::string_view TakeName();
  bool AtEnd();

 private:
  using Kind = std::optional<LiteralKind>;

  void SkipSpace();
  char Peek(size_t ahead = 0) const;
  Kind TakeValue(std::string& json, int depth);
  Kind TakeList(std::string& json, char end, int depth);
  Kind TakeBraces(std::string& json, int depth);
  bool TakeKey(std::string& json, size_t begin, Kind kind);
  bool TakeMembers(std::string& json, int depth);
  Kind TakeConstant(std::string& json);
  Kind TakeNumber(std::string& json);
  Kind TakeRadix(std::string& json, int radix);
  bool TakeDigits(std::string& digits);
  bool AtString() const;
  Kind TakeStrings(std::string& json);
  bool TakeString(std::string& content);
  bool TakeEscape(std::string& content, char quote);
  bool TakeCode(std::string& content, int num_digits);
  std::optional<uint32_t> TakeHex(int num_digits);

  std::string_view text_;
  size_t at_ = 0;
};

// A text that is one literal with white space around it, as JSON.
struct Literal {
  LiteralKind kind = LiteralKind::kNull;
  std::string json;
};
std::optional<Literal> LiteralOf(std::string_view text);

// The text as a JSON string. Bytes that are not UTF-8 are replaced.
std::string QuotedJson(std::string_view text);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_LITERAL_READER_H_
