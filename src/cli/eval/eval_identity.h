// All that may change an answer of an evaluation, by name.
#ifndef WINNOW_CLI_EVAL_EVAL_IDENTITY_H_
#define WINNOW_CLI_EVAL_EVAL_IDENTITY_H_

#include <filesystem>
#include <span>

#include "cli/eval/eval.h"
#include "cli/eval/eval_journal.h"
#include "cli/task/eval_plan.h"
#include "model/forward/model.h"

namespace winnow {

// What makes text of a folder's tokens, and tokens of text: tokenizer.json as a
// whole, and the fields of the files beside it, but for chat templates, which
// no evaluation uses. A long value is told by a number.
Result<EvalIdentity> TokenizerIdentity(const std::filesystem::path& folder);

// What is told of one evaluation: flags, model, tokenizer, tokens that end an
// answer and task files; neither threads nor memory.
// REQUIRES: as KvIdentity (model/forward/model_identity.h).
Result<EvalIdentity> EvalIdentityOf(const EvalFlags& flags, const Model& model,
                                    const EvalPlan& plan,
                                    std::span<const int32_t> end_token_ids);

}  // namespace winnow

#endif  // WINNOW_CLI_EVAL_EVAL_IDENTITY_H_
