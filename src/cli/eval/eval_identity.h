// EvalIdentityOf: all named values that may change an answer of an evaluation.
#ifndef WINNOW_CLI_EVAL_EVAL_IDENTITY_H_
#define WINNOW_CLI_EVAL_EVAL_IDENTITY_H_

#include <filesystem>
#include <span>

#include "cli/eval/eval.h"
#include "cli/eval/eval_journal.h"
#include "cli/task/eval_plan.h"
#include "model/forward/model.h"

namespace winnow {

// The tokenizer's files: tokenizer.json as a whole, and each field of the files
// beside it. Chat templates are left out, because no evaluation uses them. A
// hash stands for a long value.
Result<EvalIdentity> TokenizerIdentity(const std::filesystem::path& folder);

// All values on which answers depend: flags, model, tokenizer, end tokens and
// task files, but neither threads nor memory. REQUIRES: as KvIdentity
// (model/forward/model_identity.h).
Result<EvalIdentity> EvalIdentityOf(const EvalFlags& flags, const Model& model,
                                    const EvalPlan& plan,
                                    std::span<const int32_t> end_token_ids);

}  // namespace winnow

#endif  // WINNOW_CLI_EVAL_EVAL_IDENTITY_H_
