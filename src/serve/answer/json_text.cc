#include "serve/answer/json_text.h"

#include <nlohmann/json.hpp>

#include "base/check.h"

namespace winnow {

std::string DumpJson(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false,
                    nlohmann::ordered_json::error_handler_t::replace);
}

std::string SseEvent(std::string_view text, std::string_view name) {
  CHECK(text.find('\n') == std::string_view::npos, "bytes={}", text.size());
  std::string event;
  if (!name.empty()) event = fmt::format("event: {}\n", name);
  return event + fmt::format("data: {}\n\n", text);
}

}  // namespace winnow
