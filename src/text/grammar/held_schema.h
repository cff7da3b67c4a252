// HeldSchema: the part of a JSON schema that a grammar can hold an answer to.
#ifndef WINNOW_TEXT_GRAMMAR_HELD_SCHEMA_H_
#define WINNOW_TEXT_GRAMMAR_HELD_SCHEMA_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace winnow {

struct HeldSchema {
  // The schema without unheld keywords; references are within its root's
  // "$defs".
  std::string json;
  // The unheld keywords, as "properties.name.keyword"; "": the whole schema.
  std::vector<std::string> unheld = {};
};

// The treatment of keywords that no grammar can hold. A "format" that JSON
// Schema does not know asks nothing, and is always left out.
enum class UnheldKeywords : uint8_t {
  kRefused,
  kLeftOut,
  // As kLeftOut. Further keywords are left out until the rest compiles.
  kFitted,
};

// Resolves references within `schema` (RFC 6901, RFC 3986, "$id", "$anchor");
// reads no other document. Fails, naming the reference, if one leads elsewhere
// or nowhere. Fails, naming keyword and place, if a keyword is refused.
Result<HeldSchema> HoldSchema(std::string_view schema, UnheldKeywords rest);

}  // namespace winnow

#endif  // WINNOW_TEXT_GRAMMAR_HELD_SCHEMA_H_
