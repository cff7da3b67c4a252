// Grammars of tool calls: an answer that is nothing else.
#ifndef WINNOW_TEXT_TOOL_CALL_GRAMMAR_H_
#define WINNOW_TEXT_TOOL_CALL_GRAMMAR_H_

#include <cstddef>
#include <span>

#include "base/result.h"
#include "text/grammar.h"
#include "text/tokenizer.h"
#include "text/tool_call_format.h"

namespace winnow {

// Calls of one of `tools` after the other, as ToolCallParser reads them; with
// `one_call` one. `tokenizer` says which of the form's markers are special
// tokens, and whether it has those of the form's newer spelling. Forms that
// write parameters one by one write those that the schema describes, in its
// order. Fails where the schemas take more than `max_bytes`, and where such a
// form cannot follow one.
// REQUIRES: at least one tool.
Result<Grammar> ToolCallGrammar(ToolCallFormat format,
                                std::span<const CallableTool> tools,
                                bool one_call, const Tokenizer& tokenizer,
                                size_t max_bytes);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOL_CALL_GRAMMAR_H_
