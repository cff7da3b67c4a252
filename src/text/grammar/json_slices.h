// The parts of a JSON text as written. The order of names and the spelling of
// numbers stay; a model reads them, and a parser forgets them.
#ifndef WINNOW_TEXT_GRAMMAR_JSON_SLICES_H_
#define WINNOW_TEXT_GRAMMAR_JSON_SLICES_H_

#include <string_view>
#include <utility>
#include <vector>

namespace winnow {

// A name as written, without its quotes, and its value's text.
using JsonMember = std::pair<std::string_view, std::string_view>;

// Time is linear in the text. The results lie in that text. REQUIRES: `object`
// and `array` are texts of a valid object and array.
std::vector<JsonMember> MembersOf(std::string_view object);
std::vector<std::string_view> ElementsOf(std::string_view array);
// The value of a member, however its name is spelled; "null" if there is none.
std::string_view MemberOf(std::string_view object, std::string_view name);

}  // namespace winnow

#endif  // WINNOW_TEXT_GRAMMAR_JSON_SLICES_H_
