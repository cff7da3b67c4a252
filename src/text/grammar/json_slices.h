// The parts of a JSON text as its writer wrote them: the order of names and the
// spelling of numbers, which a parsed document forgets and a model reads.
#ifndef WINNOW_TEXT_GRAMMAR_JSON_SLICES_H_
#define WINNOW_TEXT_GRAMMAR_JSON_SLICES_H_

#include <string_view>
#include <utility>
#include <vector>

namespace winnow {

// A name as it is written, without its quotes, and its value's text.
using JsonMember = std::pair<std::string_view, std::string_view>;

// REQUIRES: `object`, `array` are the text of a valid one of these (a parser
// has been there). What is returned lies in that text. Linear in it.
std::vector<JsonMember> MembersOf(std::string_view object);
std::vector<std::string_view> ElementsOf(std::string_view array);
// The value of a member, however its name is written; "null" where there is
// none.
std::string_view MemberOf(std::string_view object, std::string_view name);

}  // namespace winnow

#endif  // WINNOW_TEXT_GRAMMAR_JSON_SLICES_H_
