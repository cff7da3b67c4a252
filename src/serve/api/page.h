// The page at /: one file, in the program.
#ifndef WINNOW_SERVE_API_PAGE_H_
#define WINNOW_SERVE_API_PAGE_H_

#include <string_view>

#include "serve/http/http_message.h"

namespace winnow {

// page.html, and the hashes of its one script and its one style for the policy.
// embed_page.py makes them when the program is built.
extern const std::string_view kPageHtml;
extern const std::string_view kPageScriptHash;
extern const std::string_view kPageStyleHash;

// Headers that restrict the browser to that script and to this origin. They
// also forbid markup from strings, and frames around the page.
HttpHeaders PageHeaders();

}  // namespace winnow

#endif  // WINNOW_SERVE_API_PAGE_H_
