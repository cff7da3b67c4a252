// ToolCallGrammar: grammars of answers that consist of tool calls.
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

// A grammar of calls to `tools`, one after another, in the form that
// ToolCallParser reads; one call with `one_call`. `tokenizer` shows which
// markers are special tokens, and whether the form's newer spelling exists. A
// form that writes parameters one by one writes the described ones, in the
// schema's order. Parts of a schema that neither JSON's grammar nor the form
// can hold are left open and named in `unheld`. With `otherwise` the answer is
// calls or a text of that grammar; kBareObject then has one call. Fails if the
// schemas take more than `max_bytes`, if a reference leads out of one, or if
// the form cannot write a required part. REQUIRES: at least one tool;
// `otherwise` is not kToolCalls.
Result<HeldCalls> ToolCallGrammar(ToolCallFormat format,
                                  std::span<const CallableTool> tools,
                                  bool one_call, const Tokenizer& tokenizer,
                                  size_t max_bytes,
                                  const Grammar* otherwise = nullptr);

}  // namespace winnow

#endif  // WINNOW_TEXT_TOOLS_TOOL_CALL_GRAMMAR_H_
