// HeldSchema: what of a JSON schema an answer can be held to.
#ifndef WINNOW_TEXT_GRAMMAR_HELD_SCHEMA_H_
#define WINNOW_TEXT_GRAMMAR_HELD_SCHEMA_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace winnow {

struct HeldSchema {
  // Without what is not followed; references are within "$defs" of its root.
  std::string json;
  // What is not followed, as "properties.name.keyword"; "": all of it.
  std::vector<std::string> unheld = {};
};

// What becomes of keywords that no answer can be held to. A "format" that JSON
// Schema does not know asks nothing, and is always left out.
enum class UnheldKeywords : uint8_t {
  kRefused,
  kLeftOut,
  // And so are others, until what is left can be compiled to a grammar.
  kFitted,
};

// References are resolved within `schema` (RFC 6901, RFC 3986, "$id",
// "$anchor"); no other document is read. Fails where one leads elsewhere or
// nowhere, naming it, and where a keyword is refused, naming it and its place.
Result<HeldSchema> HoldSchema(std::string_view schema, UnheldKeywords rest);

}  // namespace winnow

#endif  // WINNOW_TEXT_GRAMMAR_HELD_SCHEMA_H_
