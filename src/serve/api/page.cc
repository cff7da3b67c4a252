#include "serve/api/page.h"

#include <fmt/format.h>

namespace winnow {

HttpHeaders PageHeaders() {
  return {{"Content-Security-Policy",
           fmt::format("default-src 'none'; script-src '{}'; style-src '{}'; "
                       "connect-src 'self'; img-src data:; base-uri 'none'; "
                       "form-action 'none'; frame-ancestors 'none'; "
                       "require-trusted-types-for 'script'; trusted-types "
                       "'none'",
                       kPageScriptHash, kPageStyleHash)},
          {"X-Content-Type-Options", "nosniff"},
          {"X-Frame-Options", "DENY"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cache-Control", "no-cache"}};
}

}  // namespace winnow
