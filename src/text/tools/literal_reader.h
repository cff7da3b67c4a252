// LiteralReader: values as Python or JSON spells them, written as JSON.
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
// A literal is one of Python or of JSON: None and null, True and true, numbers
// (no complex ones), strings (with escapes, raw, in three quotes, several in a
// row; no bytes, none with expressions), lists, tuples and sets as arrays, and
// dictionaries, whose keys are strings, numbers, truth values or None. Nothing
// is computed: a sign before a number is all.
//
// Views the text. A byte costs one step, and nesting is bounded
// (kMaxCallDepth).
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  // Adds the next literal to `json`. None where there is none: what `json` has
  // then is of no use.
  std::optional<LiteralKind> TakeLiteral(std::string& json);
  // The sign, if it comes next.
  bool Take(char sign);
  // Letters, digits, "_", "-", "." and whatever is not ASCII; may be empty.
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

// The JSON of a text that is one literal, and white space.
struct Literal {
  LiteralKind kind = LiteralKind::kNull;
  std::string json;
};
std::optional<Literal> LiteralOf(std::string_view text);

// As a string of JSON; bytes that are no UTF-8 are replaced.
std::string QuotedJson(std::string_view text);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_LITERAL_READER_H_
