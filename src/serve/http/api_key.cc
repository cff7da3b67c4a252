#include "serve/http/api_key.h"

#include <algorithm>
#include <cstddef>

#include "base/ascii.h"

namespace winnow {

bool HasKey(std::string_view authorization, std::string_view key) {
  constexpr std::string_view kScheme = "bearer ";
  const bool of_scheme = std::ranges::equal(
      authorization.substr(0, kScheme.size()), kScheme, {}, ToLower);
  if (!of_scheme) return false;
  const std::string_view given = authorization.substr(kScheme.size());
  if (key.empty()) return given.empty();
  // As long as what was given takes, wherever it differs and however long the
  // key is; volatile, so that no compiler stops at the first that differs.
  volatile unsigned char difference = given.size() != key.size();
  for (size_t i = 0; i < given.size(); ++i) {
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(given[i]) ^
                      static_cast<unsigned char>(key[i % key.size()])));
  }
  return difference == 0;
}

}  // namespace winnow
