// ParameterCallScanner: calls whose arguments stand between tags, as plain
// text.
#ifndef WINNOW_TEXT_TOOLS_PARAMETER_CALLS_H_
#define WINNOW_TEXT_TOOLS_PARAMETER_CALLS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/tools/call_scanner.h"
#include "text/tools/parameter_types.h"

namespace winnow {

// Reads <function=NAME>, any number of <parameter=KEY>VALUE</parameter>, and
// </function>, with white space between. A value ends at the first </parameter>
// that a tag of the form follows, so a value may contain one. One line end at
// each end of a value is dropped. The last value of a repeated key counts.
// </function> may be missing before </tool_call>.
class ParameterCallScanner : public CallScanner {
 public:
  explicit ParameterCallScanner(std::shared_ptr<const ParameterTypes> types)
      : types_(std::move(types)) {}

  ScannedCall Scan(std::string_view text) override;

 private:
  enum class Phase { kName, kBody, kKey, kValue, kAfterValue, kDone, kNone };

  // One step; false if more text is needed.
  bool Step(std::string_view text);
  // Reads the name that begins at begin_ and ends with ">".
  bool StepName(std::string_view text, std::string& name, Phase next);
  bool StepBody(std::string_view text);
  bool StepValue(std::string_view text);
  bool StepAfterValue(std::string_view text);
  std::string ArgumentsJson() const;

  const std::shared_ptr<const ParameterTypes> types_;
  Phase phase_ = Phase::kName;
  size_t at_ = 0;     // behind the text read so far
  size_t begin_ = 0;  // of the name, key or value
  size_t end_ = 0;    // of the value, if the value ends there
  std::string name_;
  std::string key_;
  std::vector<std::pair<std::string, std::string>>
      arguments_;  // values as JSON
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_PARAMETER_CALLS_H_
