// HasKey: checks a client's key.
#ifndef WINNOW_SERVE_HTTP_API_KEY_H_
#define WINNOW_SERVE_HTTP_API_KEY_H_

#include <string_view>

namespace winnow {

// True if the value of an Authorization header is "Bearer KEY". Its time
// depends on the key's length alone.
bool HasKey(std::string_view authorization, std::string_view key);

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_API_KEY_H_
