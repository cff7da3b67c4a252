// Whether a client may be answered.
#ifndef WINNOW_SERVE_HTTP_API_KEY_H_
#define WINNOW_SERVE_HTTP_API_KEY_H_

#include <string_view>

namespace winnow {

// Whether the value of an Authorization header is "Bearer KEY". How long it
// takes says nothing of the key but its length.
bool HasKey(std::string_view authorization, std::string_view key);

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_API_KEY_H_
