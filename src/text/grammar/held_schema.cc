#include "text/grammar/held_schema.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/rust_text.h"

namespace winnow {
namespace {

// A byte of a schema in the trees and texts that are made of it, four times
// over where definitions stand in one another.
constexpr size_t kBytesPerSchemaByte = 256;

int32_t NumberOfRest(UnheldKeywords rest) {
  switch (rest) {
    case UnheldKeywords::kRefused:
      return kWinnowUnheldRefused;
    case UnheldKeywords::kLeftOut:
      return kWinnowUnheldLeftOut;
    case UnheldKeywords::kFitted:
      return kWinnowUnheldFitted;
  }
  CHECK(false, "rest={}", static_cast<int>(rest));
}

}  // namespace

Result<HeldSchema> HoldSchema(std::string_view schema, UnheldKeywords rest) {
  ASSIGN_OR_RETURN(const auto room,
                   internal::RoomForCall(
                       "a schema", internal::kCallBytes +
                                       kBytesPerSchemaByte * schema.size()));
  WinnowOwnedText told{};
  WinnowOwnedText message{};
  const int32_t code = winnow_schema_hold(internal::SliceOf(schema),
                                          NumberOfRest(rest), &told, &message);
  if (code != kWinnowTextOk) return internal::TakeError(code, message);
  const auto held = nlohmann::ordered_json::parse(internal::TakeText(told));
  return HeldSchema{.json = held["schema"].dump(), .unheld = held["unheld"]};
}

}  // namespace winnow
