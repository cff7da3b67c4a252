// The page at /: one file, in the program.
#ifndef WINNOW_SERVE_API_PAGE_H_
#define WINNOW_SERVE_API_PAGE_H_

#include <string_view>

#include "serve/http/http_message.h"

namespace winnow {

// page.html, and what the policy calls its one script and its one style: made
// by embed_page.py when the program is built.
extern const std::string_view kPageHtml;
extern const std::string_view kPageScriptHash;
extern const std::string_view kPageStyleHash;

// With these a browser runs that script and no other, asks this origin alone,
// makes no markup of strings, and shows the page in nobody's frame.
HttpHeaders PageHeaders();

}  // namespace winnow

#endif  // WINNOW_SERVE_API_PAGE_H_
