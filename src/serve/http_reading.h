// How bytes become an HttpRequest: what of reading HTTP needs no connection.
// Names the library, so the server's source and its tests alone include it.
#ifndef WINNOW_SERVE_HTTP_READING_H_
#define WINNOW_SERVE_HTTP_READING_H_

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>
#include <string>

#include "serve/http_message.h"
#include "serve/http_server.h"

namespace winnow {

using HttpParser =
    boost::beast::http::request_parser<boost::beast::http::string_body>;

void SetLimits(const HttpLimits& limits, HttpParser& parser);

// All but the body, as far as it was read.
HttpRequest HeadOf(const HttpParser& parser);

// Where the body ends would be a guess, and who stands before this server may
// guess otherwise (RFC 9112, 6.3). REQUIRES: the head is read.
bool EndsUnclearly(const HttpParser& parser);

struct HttpRefusal {
  int status = 400;
  std::string message;
};

// What is said to a reading that failed; none where the connection ended, or
// was too slow.
std::optional<HttpRefusal> RefusalOf(boost::system::error_code error,
                                     const HttpLimits& limits);

// Where bodies that are there leave no room for another one.
std::string FullMessage(const HttpLimits& limits);

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_READING_H_
