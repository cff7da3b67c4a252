// Calls whose arguments stand between tags, as plain text.
#ifndef WINNOW_TEXT_TOOLS_PARAMETER_CALLS_H_
#define WINNOW_TEXT_TOOLS_PARAMETER_CALLS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/tools/call_scanner.h"
#include "text/tools/parameter_types.h"

namespace winnow {

// From <function=NAME> to </function>, with any number of
// <parameter=KEY>VALUE</parameter> between, and white space between all. A
// value ends at the first </parameter> that is followed by a tag of the form,
// so that it may hold one; a line end at its beginning and one at its end are
// not part of it. Of a key that occurs twice the last value counts. </function>
// may be missing where </tool_call> comes.
class ParameterCallScanner : public CallScanner {
 public:
  explicit ParameterCallScanner(std::shared_ptr<const ParameterTypes> types)
      : types_(std::move(types)) {}

  ScannedCall Scan(std::string_view text) override;

 private:
  enum class Phase { kName, kBody, kKey, kValue, kAfterValue, kDone, kNone };

  // One step; false where more text is needed.
  bool Step(std::string_view text);
  // The name that begins at begin_ and ends with ">".
  bool StepName(std::string_view text, std::string& name, Phase next);
  bool StepBody(std::string_view text);
  bool StepValue(std::string_view text);
  bool StepAfterValue(std::string_view text);
  std::string ArgumentsJson() const;

  const std::shared_ptr<const ParameterTypes> types_;
  Phase phase_ = Phase::kName;
  size_t at_ = 0;     // what has been looked at
  size_t begin_ = 0;  // of the name, key or value
  size_t end_ = 0;    // of the value, if it ends there
  std::string name_;
  std::string key_;
  std::vector<std::pair<std::string, std::string>> arguments_;  // values: JSON
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_PARAMETER_CALLS_H_
