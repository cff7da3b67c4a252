// Grammars of tool calls: an answer that is nothing else.
#ifndef WINNOW_TEXT_TOOL_CALL_GRAMMAR_H_
#define WINNOW_TEXT_TOOL_CALL_GRAMMAR_H_

#include <span>
#include <string>

#include "text/grammar.h"
#include "text/tokenizer.h"
#include "text/tool_calls.h"

namespace winnow {

struct CallableTool {
  std::string name;             // letters, digits, "_", "-" and "."
  std::string parameters_json;  // a schema of an object; empty: of any
};

// Calls of one of `tools` after the other, as ToolCallParser reads them; with
// `one_call` one. `tokenizer` says which of the form's markers are special
// tokens, and whether it has those of the form's newer spelling.
// REQUIRES: at least one tool.
Grammar ToolCallGrammar(ToolCallFormat format,
                        std::span<const CallableTool> tools, bool one_call,
                        const Tokenizer& tokenizer);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOL_CALL_GRAMMAR_H_
