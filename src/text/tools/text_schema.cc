#include "text/tools/text_schema.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "text/tools/parameter_list.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// Alternatives, and references followed to one: they may go round.
constexpr int kMaxAlternatives = 256;

Error Refused(std::string_view what) {
  return MakeError(ErrorCode::kInvalidArgument, "{}", what);
}

// Of `type`, which a schema's value has.
bool HasType(const Json& value, const Json& type) {
  if (type.is_array()) {
    return std::ranges::any_of(
        type, [&](const Json& each) { return HasType(value, each); });
  }
  if (type == "integer") return value.is_number_integer();
  return type == value.type_name();
}

// All schemas that a value may meet, as they are found.
class Alternatives {
 public:
  explicit Alternatives(const Json& definitions) : definitions_(definitions) {}

  Status Add(const Json& schema) {
    if (++num_alternatives_ > kMaxAlternatives) {
      return Refused(
          fmt::format("its alternatives and references must be at most {}",
                      kMaxAlternatives));
    }
    if (schema == Json(true)) return AddAnything();
    if (!schema.is_object()) return Refused("it is no schema");
    if (schema.empty()) return AddAnything();
    if (schema.size() > 1) return AddTyped(schema);
    return AddOne(schema.begin().key(), schema.begin().value());
  }

  Result<TextSchema> Take() {
    if (text_.any_text) {
      const bool bounded =
          has_bounded_ ||
          std::ranges::any_of(text_.constants, [](const Json& constant) {
            return !constant.is_string() && !constant.is_null();
          });
      if (bounded) return Refused("types with bounds stand beside strings");
      return std::move(text_);
    }
    if (has_other_) return Refused("choices stand beside other types");
    if (has_null_) text_.constants.emplace_back(nullptr);
    if (has_boolean_) {
      text_.constants.emplace_back(true);
      text_.constants.emplace_back(false);
    }
    if (text_.constants.empty()) return Refused("it has no value");
    return std::move(text_);
  }

 private:
  Status AddAnything() { return AddText(0, {}); }

  Status AddText(uint64_t min_length, std::optional<uint64_t> max_length) {
    if (text_.any_text &&
        (text_.min_length != min_length || text_.max_length != max_length)) {
      return Refused("its strings have several bounds");
    }
    text_.any_text = true;
    text_.min_length = min_length;
    text_.max_length = max_length;
    return Ok{};
  }

  // The whole type.
  Status AddType(const Json& type) {
    if (type == "string") return AddText(0, {});
    has_null_ = has_null_ || type == "null";
    has_boolean_ = has_boolean_ || type == "boolean";
    has_other_ = has_other_ || (type != "null" && type != "boolean");
    return Ok{};
  }

  Status AddOne(const std::string& name, const Json& value) {
    if (name == "type" && value.is_array()) {
      for (const Json& type : value) RETURN_IF_ERROR(AddType(type));
      return Ok{};
    }
    if (name == "type") return AddType(value);
    if (name == "$ref") return AddReference(value);
    if (name == "enum") return AddConstants(value, Json());
    if (name == "const") return AddConstants(Json::array({value}), Json());
    const bool one_of_all = name == "allOf" && value.size() == 1;
    if ((name == "anyOf" || one_of_all) && value.is_array()) {
      for (const Json& schema : value) RETURN_IF_ERROR(Add(schema));
      return Ok{};
    }
    return Refused(ShownJson(name) + " must be absent");
  }

  Status AddReference(const Json& reference) {
    const auto text =
        reference.is_string() ? reference.get<std::string>() : std::string();
    for (const auto& [holder, schemas] : definitions_.items()) {
      const std::string begin = "#/" + holder + "/";
      if (!text.starts_with(begin) || !schemas.is_object()) continue;
      const auto found = schemas.find(text.substr(begin.size()));
      if (found != schemas.end()) return Add(*found);
    }
    return Refused("$ref must name one of its tool's definitions");
  }

  Status AddConstants(const Json& values, const Json& type) {
    if (!values.is_array()) return Refused("enum must be a list");
    for (const Json& value : values) {
      if (type.is_null() || HasType(value, type)) {
        text_.constants.push_back(value);
      }
    }
    return Ok{};
  }

  // "type" and what bounds it.
  Status AddTyped(const Json& own) {
    if (!own.contains("type")) return Refused("its keywords are several");
    const Json& type = own["type"];
    if (own.size() == 2 && own.contains("enum")) {
      return AddConstants(own["enum"], type);
    }
    if (own.size() == 2 && own.contains("const")) {
      return AddConstants(Json::array({own["const"]}), type);
    }
    if (type.is_array()) return Refused("its types have bounds");
    if (type != "string") {
      has_other_ = has_bounded_ = true;
      return Ok{};
    }
    uint64_t min_length = 0;
    std::optional<uint64_t> max_length;
    for (const auto& [name, value] : own.items()) {
      if (name == "type") continue;
      const bool is_length = name == "minLength" || name == "maxLength";
      if (!is_length || !value.is_number_unsigned()) {
        text_.unheld.push_back(name);
        continue;
      }
      if (name == "minLength") min_length = value;
      if (name == "maxLength") max_length = value.get<uint64_t>();
    }
    return AddText(min_length, max_length);
  }

  const Json& definitions_;
  TextSchema text_;
  bool has_null_ = false;
  bool has_boolean_ = false;
  bool has_other_ = false;    // than strings and these
  bool has_bounded_ = false;  // of these one with bounds
  int num_alternatives_ = 0;
};

}  // namespace

Result<TextSchema> TextSchemaOf(const Json& schema, const Json& definitions) {
  Alternatives alternatives(definitions);
  RETURN_IF_ERROR(alternatives.Add(schema));
  return alternatives.Take();
}

}  // namespace winnow
