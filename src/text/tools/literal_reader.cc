#include "text/tools/literal_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "text/tools/tool_call_format.h"

namespace winnow {
namespace {

constexpr uint32_t kReplacement = 0xFFFD;
constexpr uint32_t kMaxCode = 0x10FFFF;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsNameByte(char c) {
  return IsCallNameByte(c) || static_cast<unsigned char>(c) >= 0x80;
}

bool IsHighSurrogate(uint32_t code) { return code >> 10 == 0xD800 >> 10; }
bool IsLowSurrogate(uint32_t code) { return code >> 10 == 0xDC00 >> 10; }

void AppendUtf8(std::string& text, uint32_t code) {
  if (IsHighSurrogate(code) || IsLowSurrogate(code)) code = kReplacement;
  if (code < 0x80) {
    text += static_cast<char>(code);
    return;
  }
  const int num_more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  const uint32_t lead = 0xF0u << (3 - num_more) & 0xFF;
  text += static_cast<char>(lead | code >> 6 * num_more);
  for (int i = num_more - 1; i >= 0; --i) {
    text += static_cast<char>(0x80 | (code >> 6 * i & 0x3F));
  }
}

// What one letter behind a backslash stands for; 0: nothing.
char EscapedBy(char c) {
  switch (c) {
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      return 0;
  }
}

}  // namespace

std::string QuotedJson(std::string_view text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

char LiteralReader::Peek(size_t ahead) const {
  return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
}

void LiteralReader::SkipSpace() {
  while (at_ < text_.size() && IsCallSpace(text_[at_])) ++at_;
}

bool LiteralReader::Take(char sign) {
  SkipSpace();
  if (at_ == text_.size() || text_[at_] != sign) return false;
  ++at_;
  return true;
}

bool LiteralReader::AtEnd() {
  SkipSpace();
  return at_ == text_.size();
}

std::string_view LiteralReader::TakeName() {
  SkipSpace();
  const size_t begin = at_;
  while (at_ < text_.size() && IsNameByte(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::optional<LiteralKind> LiteralReader::TakeLiteral(std::string& json) {
  return TakeValue(json, 0);
}

LiteralReader::Kind LiteralReader::TakeValue(std::string& json, int depth) {
  SkipSpace();
  if (depth > kMaxCallDepth) return std::nullopt;
  if (AtString()) return TakeStrings(json);
  const char first = Peek();
  if (first == '[' || first == '(') {
    ++at_;
    return TakeList(json, first == '[' ? ']' : ')', depth);
  }
  if (first == '{') {
    ++at_;
    return TakeBraces(json, depth);
  }
  const bool number =
      IsDigit(first) || first == '.' || first == '-' || first == '+';
  return number ? TakeNumber(json) : TakeConstant(json);
}

// A tuple of one has a comma; else the brackets are there for order.
LiteralReader::Kind LiteralReader::TakeList(std::string& json, char end,
                                            int depth) {
  const size_t begin = json.size();
  json += '[';
  size_t num_values = 0;
  bool comma = true;  // before the first too
  Kind last;
  while (!Take(end)) {
    if (!comma) return std::nullopt;
    if (num_values++ > 0) json += ',';
    last = TakeValue(json, depth + 1);
    if (!last) return std::nullopt;
    comma = Take(',');
  }
  if (end == ')' && num_values == 1 && !comma) {
    json.erase(begin, 1);
    return last;
  }
  json += ']';
  return LiteralKind::kArray;
}

// A dictionary's key is in `json` from `begin` on; there it becomes a string.
bool LiteralReader::TakeKey(std::string& json, size_t begin, Kind kind) {
  if (kind == LiteralKind::kArray || kind == LiteralKind::kObject) return false;
  if (kind != LiteralKind::kString) {
    json.insert(begin, 1, '"');
    json += '"';
  }
  json += ':';
  return true;
}

bool LiteralReader::TakeMembers(std::string& json, int depth) {
  while (Take(',')) {
    if (Take('}')) return true;
    json += ',';
    const size_t begin = json.size();
    const Kind key = TakeValue(json, depth + 1);
    if (!key || !Take(':') || !TakeKey(json, begin, key)) return false;
    if (!TakeValue(json, depth + 1)) return false;
  }
  return Take('}');
}

LiteralReader::Kind LiteralReader::TakeBraces(std::string& json, int depth) {
  const size_t begin = json.size();
  json += '{';
  if (Take('}')) {
    json += '}';
    return LiteralKind::kObject;
  }
  const Kind first = TakeValue(json, depth + 1);
  if (!first) return std::nullopt;
  if (Take(':')) {
    if (!TakeKey(json, begin + 1, first)) return std::nullopt;
    if (!TakeValue(json, depth + 1) || !TakeMembers(json, depth)) {
      return std::nullopt;
    }
    json += '}';
    return LiteralKind::kObject;
  }
  json[begin] = '[';
  while (Take(',')) {
    if (Take('}')) {
      json += ']';
      return LiteralKind::kArray;
    }
    json += ',';
    if (!TakeValue(json, depth + 1)) return std::nullopt;
  }
  if (!Take('}')) return std::nullopt;
  json += ']';
  return LiteralKind::kArray;
}

LiteralReader::Kind LiteralReader::TakeConstant(std::string& json) {
  const std::string_view name = TakeName();
  if (name == "None" || name == "null") {
    json += "null";
    return LiteralKind::kNull;
  }
  if (name == "True" || name == "true") {
    json += "true";
    return LiteralKind::kBoolean;
  }
  if (name == "False" || name == "false") {
    json += "false";
    return LiteralKind::kBoolean;
  }
  return std::nullopt;
}

// Some, with single "_" between them, which are left out.
bool LiteralReader::TakeDigits(std::string& digits) {
  if (!IsDigit(Peek())) return false;
  while (IsDigit(Peek()) || (Peek() == '_' && IsDigit(Peek(1)))) {
    if (Peek() != '_') digits += Peek();
    ++at_;
  }
  return true;
}

LiteralReader::Kind LiteralReader::TakeNumber(std::string& json) {
  if (Peek() == '-') json += '-';
  if (Peek() == '-' || Peek() == '+') ++at_;
  const char letter = static_cast<char>(Peek(1) | 0x20);
  if (Peek() == '0' && letter == 'x') return TakeRadix(json, 16);
  if (Peek() == '0' && letter == 'o') return TakeRadix(json, 8);
  if (Peek() == '0' && letter == 'b') return TakeRadix(json, 2);
  std::string whole, fraction, exponent;
  const bool has_whole = TakeDigits(whole);
  const bool has_point = Peek() == '.';
  if (has_point) ++at_;
  const bool has_fraction = has_point && TakeDigits(fraction);
  if (!has_whole && !has_fraction) return std::nullopt;
  bool has_exponent = false;
  if (Peek() == 'e' || Peek() == 'E') {
    has_exponent = true;
    ++at_;
    if (Peek() == '-' || Peek() == '+') exponent += text_[at_++];
    if (!TakeDigits(exponent)) return std::nullopt;
  }
  if (IsNameByte(Peek())) return std::nullopt;
  const size_t first = std::min(whole.find_first_not_of('0'), whole.size());
  const bool is_integer = !has_point && !has_exponent;
  // Neither language has 007.
  if (is_integer && first > 0 && first < whole.size()) return std::nullopt;
  std::string number = whole.substr(first);
  if (number.empty()) number = "0";
  if (has_point) number += "." + (has_fraction ? fraction : "0");
  if (has_exponent) number += "e" + exponent;
  // Python makes infinity of it, which JSON does not have.
  if (!std::isfinite(std::strtod(number.c_str(), nullptr))) return std::nullopt;
  json += number;
  return is_integer ? LiteralKind::kInteger : LiteralKind::kNumber;
}

// 0x1F, 0o17, 0b11; of more than 64 bits none.
LiteralReader::Kind LiteralReader::TakeRadix(std::string& json, int radix) {
  at_ += 2;
  std::string digits;
  while (IsNameByte(Peek())) {
    if (Peek() != '_') digits += Peek();
    ++at_;
  }
  uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, radix);
  if (error != std::errc() || stop != end) return std::nullopt;
  json += std::to_string(value);
  return LiteralKind::kInteger;
}

bool LiteralReader::AtString() const {
  const char letter = static_cast<char>(Peek() | 0x20);
  const char quote = Peek(letter == 'r' || letter == 'u' ? 1 : 0);
  return quote == '"' || quote == '\'';
}

LiteralReader::Kind LiteralReader::TakeStrings(std::string& json) {
  std::string content;
  while (AtString()) {
    if (!TakeString(content)) return std::nullopt;
    SkipSpace();
  }
  json += QuotedJson(content);
  return LiteralKind::kString;
}

bool LiteralReader::TakeString(std::string& content) {
  const char letter = static_cast<char>(Peek() | 0x20);
  const bool raw = letter == 'r';
  if (raw || letter == 'u') ++at_;
  const char quote = Peek();
  const bool triple = Peek(1) == quote && Peek(2) == quote;
  const size_t num_quotes = triple ? 3 : 1;
  at_ += num_quotes;
  const auto ends = [&] {
    return Peek() == quote &&
           (!triple || (Peek(1) == quote && Peek(2) == quote));
  };
  while (at_ < text_.size()) {
    if (ends()) {
      at_ += num_quotes;
      return true;
    }
    const char c = text_[at_++];
    if (c == '\n' && !triple) return false;
    if (c != '\\') {
      content += c;
    } else if (raw) {
      content += c;
      if (at_ == text_.size()) return false;
      content += text_[at_++];
    } else if (!TakeEscape(content, quote)) {
      return false;
    }
  }
  return false;
}

// Behind the backslash.
bool LiteralReader::TakeEscape(std::string& content, char quote) {
  if (at_ == text_.size()) return false;
  const char c = text_[at_++];
  if (c == '\n') return true;
  if (c == 'x') return TakeCode(content, 2);
  if (c == 'u') return TakeCode(content, 4);
  if (c == 'U') return TakeCode(content, 8);
  if (c == 'N') return false;  // by the character's name
  if (const char escaped = EscapedBy(c); escaped != 0) {
    content += escaped;
    return true;
  }
  if (c >= '0' && c <= '7') {
    uint32_t code = static_cast<uint32_t>(c - '0');
    for (int i = 0; i < 2 && Peek() >= '0' && Peek() <= '7'; ++i) {
      code = code * 8 + static_cast<uint32_t>(text_[at_++] - '0');
    }
    AppendUtf8(content, code);
    return true;
  }
  // JSON has this one; other letters Python leaves as they stand.
  if (c != '/' || quote != '"') content += '\\';
  content += c;
  return true;
}

std::optional<uint32_t> LiteralReader::TakeHex(int num_digits) {
  const auto num = static_cast<size_t>(num_digits);
  if (text_.size() - at_ < num) return std::nullopt;
  uint32_t code = 0;
  const char* begin = text_.data() + at_;
  const auto [stop, error] = std::from_chars(begin, begin + num, code, 16);
  if (error != std::errc() || stop != begin + num) return std::nullopt;
  at_ += num;
  return code;
}

// JSON spells what lies beyond 16 bits as two halves.
bool LiteralReader::TakeCode(std::string& content, int num_digits) {
  const std::optional<uint32_t> code = TakeHex(num_digits);
  if (!code || *code > kMaxCode) return false;
  if (IsHighSurrogate(*code) && Peek() == '\\' && Peek(1) == 'u') {
    const size_t before = at_;
    at_ += 2;
    const std::optional<uint32_t> low = TakeHex(4);
    if (low && IsLowSurrogate(*low)) {
      AppendUtf8(content, 0x10000 + ((*code & 0x3FF) << 10) + (*low & 0x3FF));
      return true;
    }
    at_ = before;
  }
  AppendUtf8(content, *code);
  return true;
}

std::optional<Literal> LiteralOf(std::string_view text) {
  LiteralReader reader(text);
  Literal literal;
  const std::optional<LiteralKind> kind = reader.TakeLiteral(literal.json);
  if (!kind || !reader.AtEnd()) return std::nullopt;
  literal.kind = *kind;
  return literal;
}

}  // namespace winnow
