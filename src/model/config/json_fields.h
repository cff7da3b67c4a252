// JsonFields: typed, range-checked reading of a JSON object.
//
// Every failure is one line that names the file, the field, the expected value
// and the value found:
//   config.json: field hidden_size: must be an integer in [1, 1048576], is "x"
#ifndef WINNOW_MODEL_CONFIG_JSON_FIELDS_H_
#define WINNOW_MODEL_CONFIG_JSON_FIELDS_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace winnow {

// Limits of a document. A document beyond them is refused.
struct JsonLimits {
  size_t max_bytes = size_t{16} << 20;
  int max_depth = 16;
};

// A closed interval.
struct IntegerRange {
  int64_t min = 0;
  int64_t max = 0;
};
struct NumberRange {
  double min = 0;
  double max = 0;
};

// True for an integer of the range. As in JSON Schema, 2.0 is an integer if a
// double distinguishes it from its neighbours.
bool InRange(const nlohmann::json& value, IntegerRange range);

// One object of a parsed document. Shares the document with the other objects
// of it; copies are cheap; const, so any thread may read. A field that is null
// counts as absent, because Hugging Face writes both. An absent field gives
// `otherwise`; without that argument the field is required.
class JsonFields {
 public:
  // Parses `text` whole. Fails unless it is one JSON object within `limits` and
  // no object repeats a name. `file` begins all messages.
  static Result<JsonFields> Parse(std::string_view text, std::string file,
                                  const JsonLimits& limits);

  bool Has(std::string_view name) const;
  // True for a field that is written as null.
  bool IsNull(std::string_view name) const;
  // The names in the object, ascending.
  std::vector<std::string> Names() const;

  Result<int64_t> Integer(std::string_view name, IntegerRange range,
                          std::optional<int64_t> otherwise = {}) const;
  // Integers count as numbers.
  Result<double> Number(std::string_view name, NumberRange range,
                        std::optional<double> otherwise = {}) const;
  Result<bool> Flag(std::string_view name,
                    std::optional<bool> otherwise = {}) const;
  Result<std::string> Text(std::string_view name,
                           std::optional<std::string> otherwise = {}) const;
  // A list of integers, or a single one; absent: an empty list.
  Result<std::vector<int64_t>> Integers(std::string_view name,
                                        IntegerRange range) const;
  // As Integers, limited to the integers in `range`. Each other element adds a
  // failure to `wrong`.
  std::vector<int64_t> GoodIntegers(std::string_view name, IntegerRange range,
                                    std::vector<Error>& wrong) const;
  // A list of exactly `count` numbers.
  Result<std::vector<double>> Numbers(std::string_view name, NumberRange range,
                                      size_t count) const;
  // A list of strings; absent: an empty list.
  Result<std::vector<std::string>> Texts(std::string_view name) const;
  Result<JsonFields> Object(std::string_view name) const;

  // The failure of `name`: "<file>: field <name>: must be <expected>, is ...".
  // For conditions that only the caller knows.
  Error Unexpected(std::string_view name, std::string_view expected,
                   ErrorCode code = ErrorCode::kInvalidArgument) const;
  // As Unexpected, for one item of a list: "field <name>[<index>]: must be
  // ...". REQUIRES: `name` is a list with that item.
  Error UnexpectedItem(std::string_view name, size_t index,
                       std::string_view expected) const;

  const std::string& file() const { return file_; }

 private:
  JsonFields(std::string file, std::string prefix,
             std::shared_ptr<const nlohmann::json> document,
             const nlohmann::json* object)
      : file_(std::move(file)),
        prefix_(std::move(prefix)),
        document_(std::move(document)),
        object_(object) {}

  // The field; nullptr if it is absent or null.
  const nlohmann::json* Find(std::string_view name) const;

  std::string file_;
  std::string prefix_;  // "rope_scaling." within a nested object
  std::shared_ptr<const nlohmann::json> document_;
  const nlohmann::json* object_;
};

// `text` for a message: one line, no control characters, cut short. For names
// that come from a file.
std::string Printable(std::string_view text);

}  // namespace winnow

#endif  // WINNOW_MODEL_CONFIG_JSON_FIELDS_H_
