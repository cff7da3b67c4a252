// ServerUrl: the address of a server.
#ifndef WINNOW_LOAD_SERVER_URL_H_
#define WINNOW_LOAD_SERVER_URL_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace winnow {

struct ServerUrl {
  std::string host = "127.0.0.1";  // a name or an address, without brackets
  int port = 8000;
  std::string path = {};  // before every endpoint; no slash at the end
};

// Parses "http://HOST[:PORT][/PATH]". The scheme may be left out; the port
// is 80 by default. The error names the expected form; https is not supported.
Result<ServerUrl> ParseServerUrl(std::string_view text);

// "127.0.0.1:8000", "[::1]:8000": for the Host header and for messages.
std::string HostAndPort(const ServerUrl& url);

}  // namespace winnow

#endif  // WINNOW_LOAD_SERVER_URL_H_
