// SelectSpec: the text form of a selector: name[:key=value[,key=value...]].
#ifndef WINNOW_SPARSE_SPEC_SPEC_H_
#define WINNOW_SPARSE_SPEC_SPEC_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/contract/select_program.h"
#include "base/result.h"

namespace winnow {

struct SelectSpec {
  std::string name;
  std::vector<std::pair<std::string, std::string>> parameters;
};

// Splits the text and does not interpret the parts.
Result<SelectSpec> ParseSelectSpec(std::string_view text);

// "2048", "4K": tokens; "1/16", "1.56%": a share of the context. Fails with a
// message that begins with `field`.
Result<Amount> ParseAmount(std::string_view field, std::string_view text);
// Tokens alone.
Result<int> ParseTokens(std::string_view field, std::string_view text);
// A number that is neither a share nor an amount of tokens: "0.004".
Result<double> ParseFraction(std::string_view field, std::string_view text);
// "0-1", "0+5+31", "none": result[layer] of num_layers.
Result<std::vector<bool>> ParseLayers(std::string_view field,
                                      std::string_view text, int num_layers);

// The one of `names` with the least edit distance to `written`, where a change
// of case is free.
std::string_view NearestName(std::string_view written,
                             const std::vector<std::string_view>& names);

}  // namespace winnow

#endif  // WINNOW_SPARSE_SPEC_SPEC_H_
