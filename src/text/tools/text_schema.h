// Which plain texts stand for the values of a schema that has strings.
#ifndef WINNOW_TEXT_TOOLS_TEXT_SCHEMA_H_
#define WINNOW_TEXT_TOOLS_TEXT_SCHEMA_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace winnow {

// Either any text of so many characters, or one of a few.
struct TextSchema {
  bool any_text = false;
  uint64_t min_length = 0;
  std::optional<uint64_t> max_length = {};
  // Where any_text is not set.
  std::vector<nlohmann::ordered_json> constants = {};
  // Keywords of strings that a plain text is not held to.
  std::vector<std::string> unheld = {};
};

// Of "type" (with minLength and maxLength), "enum", "const", "anyOf", "allOf"
// of one, and "$ref" into `definitions` ({"$defs": {...}}), of a schema as
// HoldSchema gives it. Where texts may be any, the other types that the schema
// has are without bounds, so that a text that reads as one of them is of the
// schema too. Fails, saying what is in the way, where alternatives or types ask
// for more than a plain text can be held to.
Result<TextSchema> TextSchemaOf(const nlohmann::ordered_json& schema,
                                const nlohmann::ordered_json& definitions);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_TEXT_SCHEMA_H_
