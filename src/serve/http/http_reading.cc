#include "serve/http/http_reading.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>

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

namespace {

std::string TextOf(boost::beast::string_view view) {
  return {view.data(), view.size()};
}

struct Target {
  std::optional<std::string_view> authority = {};
  std::string_view path = {};
};

Target TargetOf(const HttpParser& parser) {
  const boost::beast::string_view sent = parser.get().target();
  std::string_view rest(sent.data(), sent.size());
  Target target;
  for (const std::string_view scheme : {"http://", "https://"}) {
    const std::string_view begin = rest.substr(0, scheme.size());
    if (!boost::beast::iequals({begin.data(), begin.size()},
                               {scheme.data(), scheme.size()})) {
      continue;
    }
    rest.remove_prefix(scheme.size());
    const size_t end = std::min(rest.find_first_of("/?#"), rest.size());
    target.authority = rest.substr(0, end);
    rest.remove_prefix(end);
    break;
  }
  target.path = rest.substr(0, rest.find('?'));
  if (target.authority && target.path.empty()) target.path = "/";
  return target;
}

// None where it is no hexadecimal digit.
std::optional<int> DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> DecodedPath(std::string_view path) {
  std::string decoded;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      decoded += path[i];
      continue;
    }
    if (path.size() - i < 3) return std::nullopt;
    const auto high = DigitOf(path[i + 1]), low = DigitOf(path[i + 2]);
    if (!high || !low) return std::nullopt;
    decoded += static_cast<char>(16 * *high + *low);
    i += 2;
  }
  return decoded;
}

HttpRequest HeadOf(const HttpParser& parser) {
  const auto& message = parser.get();
  HttpRequest request;
  request.method = TextOf(message.method_string());
  const Target target = TargetOf(parser);
  request.path = DecodedPath(target.path).value_or(std::string(target.path));
  request.host = target.authority ? std::string(*target.authority)
                                  : TextOf(message[http::field::host]);
  request.authorization = TextOf(message[http::field::authorization]);
  request.api_key = TextOf(message["X-Api-Key"]);
  request.request_id = TextOf(message["X-Request-Id"]);
  request.origin = TextOf(message[http::field::origin]);
  request.fetch_site = TextOf(message["Sec-Fetch-Site"]);
  request.asked_headers = TextOf(message["Access-Control-Request-Headers"]);
  return request;
}

BeforeRequest EmptyLinesIn(std::string_view received, int* num_lines_left) {
  BeforeRequest before;
  while (*num_lines_left > 0 && received.starts_with("\r\n")) {
    received.remove_prefix(2);
    before.num_bytes += 2;
    --*num_lines_left;
  }
  const bool may_be_one = *num_lines_left > 0 && received == "\r";
  before.has_begun = !received.empty() && !may_be_one;
  return before;
}

namespace {

std::optional<HttpRefusal> RefusalOfNames(const HttpParser& parser) {
  const auto& message = parser.get();
  const size_t num_hosts = message.count(http::field::host);
  if (num_hosts > 1 || (num_hosts == 0 && message.version() >= kVersion11)) {
    return HttpRefusal{
        400, fmt::format("there must be one header Host, are {}", num_hosts)};
  }
  if (message.count(http::field::authorization) > 1) {
    return HttpRefusal{400, "there must be one header Authorization at most"};
  }
  const std::optional<std::string_view> authority = TargetOf(parser).authority;
  // Whoever sends a name and a password with it means another server.
  if (authority &&
      (authority->empty() || authority->find('@') != std::string_view::npos)) {
    return HttpRefusal{400, "target must be a path, or http://HOST/PATH"};
  }
  return std::nullopt;
}

std::optional<HttpRefusal> RefusalOfCodings(const HttpParser& parser) {
  const auto& message = parser.get();
  const size_t num_codings = message.count(http::field::transfer_encoding);
  const bool is_chunked =
      num_codings == 1 &&
      boost::beast::iequals(message[http::field::transfer_encoding], "chunked");
  if (num_codings > 0 && (!is_chunked || message.version() < kVersion11)) {
    return HttpRefusal{400,
                       "Transfer-Encoding must be chunked alone, of HTTP/1.1"};
  }
  const auto encodings = message.equal_range(http::field::content_encoding);
  for (auto each = encodings.first; each != encodings.second; ++each) {
    if (!boost::beast::iequals(each->value(), "identity")) {
      return HttpRefusal{415, "Content-Encoding must be identity"};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<HttpRefusal> RefusalOfHead(const HttpParser& parser) {
  if (auto refusal = RefusalOfNames(parser)) return refusal;
  if (auto refusal = RefusalOfCodings(parser)) return refusal;
  if (!DecodedPath(TargetOf(parser).path)) {
    return HttpRefusal{400,
                       "path: % must be followed by two hexadecimal digits"};
  }
  return std::nullopt;
}

// HTTP/1.0 knows no interim answers.
bool AwaitsContinue(const HttpParser& parser) {
  const auto& message = parser.get();
  return message.version() >= kVersion11 &&
         boost::beast::iequals(message[http::field::expect], "100-continue");
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
