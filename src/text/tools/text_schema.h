// TextSchema: the plain texts that stand for a string schema's values.
#ifndef WINNOW_TEXT_TOOLS_TEXT_SCHEMA_H_
#define WINNOW_TEXT_TOOLS_TEXT_SCHEMA_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace winnow {

// Either any text within the length limits, or one of the constants.
struct TextSchema {
  bool any_text = false;
  uint64_t min_length = 0;
  std::optional<uint64_t> max_length = {};
  // Used if any_text is false.
  std::vector<nlohmann::ordered_json> constants = {};
  // String keywords that a plain text cannot be held to.
  std::vector<std::string> unheld = {};
};

// Reads "type" (with minLength and maxLength), "enum", "const", "anyOf",
// "allOf" of one, and "$ref" into `definitions` ({"$defs": {...}}). REQUIRES:
// `schema` is a result of HoldSchema. If any text is allowed, the schema's
// other types must be unbounded, so that a text that reads as one of them is
// valid too. Fails, naming the obstacle, if alternatives or types demand more.
Result<TextSchema> TextSchemaOf(const nlohmann::ordered_json& schema,
                                const nlohmann::ordered_json& definitions);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_TEXT_SCHEMA_H_
