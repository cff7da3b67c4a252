#include "text/tools/tool_call_format.h"

#include "base/check.h"

namespace winnow {
namespace {

constexpr std::string_view kTags[] = {kCallTag, kCallEndTag};
constexpr std::string_view kMarkers[] = {kListMarker, kCallIdMarker,
                                         kArgumentsMarker};
constexpr std::string_view kPythonMarkers[] = {kPythonMarker, kPythonEndMarker};

}  // namespace

std::optional<ToolCallFormat> ToolCallFormatOf(std::string_view source) {
  const auto has = [source](std::string_view text) {
    return source.find(text) != std::string_view::npos;
  };
  if (!has("tools")) return std::nullopt;
  if (has(kListMarker)) return ToolCallFormat::kMarked;
  if (has(kPythonMarker)) {
    // Other families have a list of calls between these markers.
    if (!has("```python")) return std::nullopt;
    return ToolCallFormat::kPythonCalls;
  }
  if (has(kCallTag)) {
    if (!has(kFunctionTag)) return ToolCallFormat::kTagged;
    // Others write an object behind the function's name.
    if (!has(kParameterTag)) return std::nullopt;
    return ToolCallFormat::kParameterTags;
  }
  if (has("\"name\":") && has("\"parameters\":")) {
    return ToolCallFormat::kBareObject;
  }
  return std::nullopt;
}

std::span<const std::string_view> MarkersOf(ToolCallFormat format) {
  switch (format) {
    case ToolCallFormat::kTagged:
    case ToolCallFormat::kParameterTags:
      return kTags;
    case ToolCallFormat::kMarked:
      return kMarkers;
    case ToolCallFormat::kPythonCalls:
      return kPythonMarkers;
    case ToolCallFormat::kBareObject:
      return {};
  }
  CHECK(false, "format={}", static_cast<int>(format));
}

}  // namespace winnow
