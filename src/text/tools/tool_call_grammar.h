// Grammars of tool calls: an answer that is nothing else.
#ifndef WINNOW_TEXT_TOOLS_TOOL_CALL_GRAMMAR_H_
#define WINNOW_TEXT_TOOLS_TOOL_CALL_GRAMMAR_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/grammar/grammar.h"
#include "text/tokenize/tokenizer.h"
#include "text/tools/tool_call_format.h"

namespace winnow {

// The grammar of an answer that calls tools.
struct HeldCalls {
  Grammar grammar;
  // Keywords of the tools' schemas that the grammar does not hold:
  // "TOOL.properties.NAME.keyword".
  std::vector<std::string> unheld = {};
};

// Calls of one of `tools` after the other, as ToolCallParser reads them; with
// `one_call` one. `tokenizer` says which of the form's markers are special
// tokens, and whether it has those of the form's newer spelling. Forms that
// write parameters one by one write those that the schema describes, in its
// order. What neither JSON's grammar nor the form can follow of a schema is
// left open and named. With `otherwise` the answer is calls or what that
// grammar says; of kBareObject then one call. Fails where the schemas take more
// than `max_bytes`, where a reference in one leads out of it, and where the
// form has no way to write what one requires.
// REQUIRES: at least one tool; `otherwise` is no calls.
Result<HeldCalls> ToolCallGrammar(ToolCallFormat format,
                                  std::span<const CallableTool> tools,
                                  bool one_call, const Tokenizer& tokenizer,
                                  size_t max_bytes,
                                  const Grammar* otherwise = nullptr);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_TOOL_CALL_GRAMMAR_H_
