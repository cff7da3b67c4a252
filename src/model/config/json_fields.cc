#include "model/config/json_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace winnow {
namespace {

using nlohmann::json;

// How much of a wrong value a message shows.
constexpr size_t kShownBytes = 80;

// `value` as one short line of valid UTF-8.
std::string Shown(const json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true,
                                json::error_handler_t::replace);
  if (text.size() > kShownBytes) {
    text.resize(kShownBytes);
    text += "...";
  }
  return text;
}

// Reads a document without keeping it, stops at the first thing that is
// refused, and says what that was: nlohmann-json itself knows no limit of
// depth and takes the last of two equal names.
class Inspector : public json::json_sax_t {
 public:
  explicit Inspector(int max_depth) : max_depth_(max_depth) {}

  const std::string& complaint() const { return complaint_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    objects_.emplace_back();
    return Deeper();
  }
  bool key(string_t& name) override {
    objects_.back().last = name;
    if (objects_.back().names.insert(name).second) return true;
    complaint_ =
        fmt::format("the name {} occurs twice in one object", Printable(name));
    return false;
  }
  bool end_object() override {
    objects_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return Deeper(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const json::exception& error) override {
    complaint_ = fmt::format("not valid JSON at byte {}", position);
    if (error.id == kNumberOverflow) {
      complaint_ = fmt::format(
          "field {}: must be a number that a double has room for, is {}",
          objects_.empty() ? "body" : Printable(Place()),
          token.substr(0, kShownBytes));
    }
    return false;
  }

 private:
  // Of those that are open.
  struct Object {
    std::set<std::string> names = {};
    std::string last = {};
  };
  static constexpr int kNumberOverflow = 406;  // as nlohmann-json numbers them

  // "a.b": where it is in the objects that are open; lists count for nothing.
  std::string Place() const {
    std::string place;
    for (const Object& object : objects_) {
      place += (place.empty() ? "" : ".") + object.last;
    }
    return place;
  }

  bool Deeper() {
    if (++depth_ <= max_depth_) return true;
    complaint_ = fmt::format("nested deeper than {} levels", max_depth_);
    return false;
  }

  int max_depth_;
  int depth_ = 0;
  std::vector<Object> objects_;
  std::string complaint_;
};

bool InRange(const json& value, NumberRange range) {
  if (!value.is_number()) return false;
  const auto number = value.get<double>();
  return range.min <= number && number <= range.max;
}

std::string Described(IntegerRange range) {
  return fmt::format("an integer in [{}, {}]", range.min, range.max);
}

std::string Described(NumberRange range) {
  return fmt::format("a number in [{}, {}]", range.min, range.max);
}

}  // namespace

bool InRange(const json& value, IntegerRange range) {
  if (value.is_number_float()) {
    constexpr double kMostExact = 0x1p53;
    const auto number = value.get<double>();
    return std::trunc(number) == number && std::abs(number) <= kMostExact &&
           static_cast<double>(range.min) <= number &&
           number <= static_cast<double>(range.max);
  }
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return false;
  }
  const auto number = value.get<int64_t>();
  return range.min <= number && number <= range.max;
}

std::string Printable(std::string_view text) {
  const std::string shown = Shown(json(text));  // Quoted, perhaps cut.
  const size_t quotes = shown.ends_with('"') ? 2 : 1;
  return shown.substr(1, shown.size() - quotes);
}

Result<JsonFields> JsonFields::Parse(std::string_view text, std::string file,
                                     const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: JSON must be at most {} bytes, is {}", file,
                     limits.max_bytes, text.size());
  }
  // The parser takes it for the end.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: JSON must have no NUL, has one at byte {}", file,
                     nul);
  }
  Inspector inspector(limits.max_depth);
  if (!json::sax_parse(text, &inspector)) {
    return MakeError(ErrorCode::kCorrupt, "{}: {}", file,
                     inspector.complaint());
  }
  auto document = std::make_shared<const json>(
      json::parse(text, nullptr, /*allow_exceptions=*/false));
  if (!document->is_object()) {
    return MakeError(ErrorCode::kCorrupt, "{}: must be a JSON object, is {}",
                     file, Shown(*document));
  }
  const json* object = document.get();
  return JsonFields(std::move(file), "", std::move(document), object);
}

const json* JsonFields::Find(std::string_view name) const {
  const auto found = object_->find(name);
  if (found == object_->end() || found->is_null()) return nullptr;
  return &*found;
}

bool JsonFields::Has(std::string_view name) const {
  return Find(name) != nullptr;
}

bool JsonFields::IsNull(std::string_view name) const {
  const auto found = object_->find(name);
  return found != object_->end() && found->is_null();
}

std::vector<std::string> JsonFields::Names() const {
  std::vector<std::string> names;
  for (const auto& item : object_->items()) names.push_back(item.key());
  return names;
}

Error JsonFields::Unexpected(std::string_view name, std::string_view expected,
                             ErrorCode code) const {
  const json* found = Find(name);
  return MakeError(code, "{}: field {}: must be {}, is {}", file_,
                   Printable(prefix_ + std::string(name)), expected,
                   found == nullptr ? "missing" : Shown(*found));
}

Error JsonFields::UnexpectedItem(std::string_view name, size_t index,
                                 std::string_view expected) const {
  return MakeError(ErrorCode::kInvalidArgument,
                   "{}: field {}[{}]: must be {}, is {}", file_,
                   Printable(prefix_ + std::string(name)), index, expected,
                   Shown((*Find(name))[index]));
}

Result<int64_t> JsonFields::Integer(std::string_view name, IntegerRange range,
                                    std::optional<int64_t> otherwise) const {
  const json* found = Find(name);
  if (found == nullptr && otherwise) return *otherwise;
  if (found == nullptr || !InRange(*found, range)) {
    return Unexpected(name, Described(range));
  }
  return found->get<int64_t>();
}

Result<double> JsonFields::Number(std::string_view name, NumberRange range,
                                  std::optional<double> otherwise) const {
  const json* found = Find(name);
  if (found == nullptr && otherwise) return *otherwise;
  if (found == nullptr || !InRange(*found, range)) {
    return Unexpected(name, Described(range));
  }
  return found->get<double>();
}

Result<bool> JsonFields::Flag(std::string_view name,
                              std::optional<bool> otherwise) const {
  const json* found = Find(name);
  if (found == nullptr && otherwise) return *otherwise;
  if (found == nullptr || !found->is_boolean()) {
    return Unexpected(name, "true or false");
  }
  return found->get<bool>();
}

Result<std::string> JsonFields::Text(
    std::string_view name, std::optional<std::string> otherwise) const {
  const json* found = Find(name);
  if (found == nullptr && otherwise) return *std::move(otherwise);
  if (found == nullptr || !found->is_string()) {
    return Unexpected(name, "a string");
  }
  return found->get<std::string>();
}

Result<std::vector<int64_t>> JsonFields::Integers(std::string_view name,
                                                  IntegerRange range) const {
  const json* found = Find(name);
  std::vector<int64_t> numbers;
  if (found == nullptr) return numbers;
  const std::string expected =
      Described(range) + ", or a list of such integers";
  if (!found->is_array()) {
    if (!InRange(*found, range)) return Unexpected(name, expected);
    numbers.push_back(found->get<int64_t>());
    return numbers;
  }
  for (const json& item : *found) {
    if (!InRange(item, range)) {
      return UnexpectedItem(name, numbers.size(), Described(range));
    }
    numbers.push_back(item.get<int64_t>());
  }
  return numbers;
}

std::vector<int64_t> JsonFields::GoodIntegers(std::string_view name,
                                              IntegerRange range,
                                              std::vector<Error>& wrong) const {
  const json* found = Find(name);
  std::vector<int64_t> numbers;
  if (found == nullptr) return numbers;
  const size_t count = found->is_array() ? found->size() : 1;
  for (size_t i = 0; i < count; ++i) {
    const json& item = found->is_array() ? (*found)[i] : *found;
    if (InRange(item, range)) {
      numbers.push_back(item.get<int64_t>());
    } else if (found->is_array()) {
      wrong.push_back(UnexpectedItem(name, i, Described(range)));
    } else {
      wrong.push_back(
          Unexpected(name, Described(range) + ", or a list of such integers"));
    }
  }
  return numbers;
}

Result<std::vector<double>> JsonFields::Numbers(std::string_view name,
                                                NumberRange range,
                                                size_t count) const {
  const json* found = Find(name);
  std::vector<double> numbers;
  bool good = found != nullptr && found->is_array() && found->size() == count;
  for (size_t i = 0; good && i < count; ++i) {
    good = InRange((*found)[i], range);
    if (good) numbers.push_back((*found)[i].get<double>());
  }
  if (!good) {
    return Unexpected(name, fmt::format("a list of {} numbers in [{}, {}]",
                                        count, range.min, range.max));
  }
  return numbers;
}

Result<std::vector<std::string>> JsonFields::Texts(
    std::string_view name) const {
  const json* found = Find(name);
  std::vector<std::string> texts;
  if (found == nullptr) return texts;
  if (!found->is_array()) return Unexpected(name, "a list of strings");
  for (const json& item : *found) {
    if (!item.is_string()) {
      return UnexpectedItem(name, texts.size(), "a string");
    }
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

Result<JsonFields> JsonFields::Object(std::string_view name) const {
  const json* found = Find(name);
  if (found == nullptr || !found->is_object()) {
    return Unexpected(name, "an object");
  }
  return JsonFields(file_, prefix_ + std::string(name) + ".", document_, found);
}

}  // namespace winnow
