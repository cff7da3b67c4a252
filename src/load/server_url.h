// Where a server is.
#ifndef WINNOW_LOAD_SERVER_URL_H_
#define WINNOW_LOAD_SERVER_URL_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace winnow {

struct ServerUrl {
  std::string host = "127.0.0.1";  // a name or an address, without brackets
  int port = 8000;
  std::string path = {};  // before every endpoint; no slash at its end
};

// "http://HOST[:PORT][/PATH]"; the scheme may be left out, the port is then
// 80. Fails with what it must be; https is not spoken.
Result<ServerUrl> ParseServerUrl(std::string_view text);

// "127.0.0.1:8000", "[::1]:8000": of the header Host, and for messages.
std::string HostAndPort(const ServerUrl& url);

}  // namespace winnow

#endif  // WINNOW_LOAD_SERVER_URL_H_
