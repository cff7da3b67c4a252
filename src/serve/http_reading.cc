#include "serve/http_reading.h"

#include "base/check.h"

namespace winnow {

namespace http = boost::beast::http;
namespace errc = boost::system::errc;

boost::system::error_code CountedBody::reader::Append(std::string_view bytes) {
  switch (body_.Append(bytes)) {
    case std::errc::no_buffer_space:
      return errc::make_error_code(errc::no_buffer_space);
    case std::errc::not_enough_memory:
      return errc::make_error_code(errc::not_enough_memory);
    default:
      return {};
  }
}

void SetLimits(const HttpLimits& limits, HttpParser& parser) {
  parser.header_limit(static_cast<uint32_t>(limits.max_header_bytes));
  parser.body_limit(static_cast<uint64_t>(limits.max_body_bytes));
}

HttpRequest HeadOf(const HttpParser& parser) {
  const auto& message = parser.get();
  const auto text = [](auto view) {
    return std::string(view.data(), view.size());
  };
  HttpRequest request;
  request.method = text(message.method_string());
  const std::string target = text(message.target());
  request.path = target.substr(0, target.find('?'));
  request.host = text(message[http::field::host]);
  request.authorization = text(message[http::field::authorization]);
  request.api_key = text(message["X-Api-Key"]);
  request.request_id = text(message["X-Request-Id"]);
  request.origin = text(message[http::field::origin]);
  request.asked_headers = text(message["Access-Control-Request-Headers"]);
  return request;
}

bool EndsUnclearly(const HttpParser& parser) {
  return parser.get().count(http::field::transfer_encoding) > 0 &&
         !parser.chunked();
}

std::optional<HttpRefusal> RefusalOf(boost::system::error_code error,
                                     const HttpLimits& limits) {
  if (error == http::error::body_limit) {
    return HttpRefusal{413, fmt::format("body must be at most {} bytes "
                                        "(--max-body-size)",
                                        limits.max_body_bytes)};
  }
  if (error == http::error::header_limit ||
      error == http::error::buffer_overflow) {
    return HttpRefusal{431, fmt::format("headers must be at most {} bytes "
                                        "(--max-header-size)",
                                        limits.max_header_bytes)};
  }
  // Bodies that are there leave no room for this one.
  if (error == errc::no_buffer_space) {
    return HttpRefusal{
        503, fmt::format("long bodies that are received, wait or are worked on "
                         "must be at most {} bytes together "
                         "(--max-bodies-size), are more with this one",
                         limits.max_bodies_bytes)};
  }
  if (error == errc::not_enough_memory) {
    return HttpRefusal{503, "memory does not suffice for the body, for now"};
  }
  const bool of_http =
      error.category() ==
      http::make_error_code(http::error::bad_method).category();
  if (!of_http || error == http::error::end_of_stream ||
      error == http::error::partial_message) {
    return std::nullopt;
  }
  return HttpRefusal{400, "not a request of HTTP/1.1: " + error.message()};
}

HttpRefusal LateRefusal(const HttpLimits& limits) {
  return {504, fmt::format("--request-timeout ({} s) must suffice for the "
                           "whole answer, is over before the request had "
                           "arrived",
                           limits.request_time.count())};
}

}  // namespace winnow
