#include "cli/generate/batch_progress.h"

#include <numeric>

namespace winnow {

BatchProgress::BatchProgress(const std::vector<int>& prompt_tokens)
    : prompts_(prompt_tokens.size()),
      num_prompt_tokens_(std::accumulate(prompt_tokens.begin(),
                                         prompt_tokens.end(), int64_t{0})) {}

void BatchProgress::OnRead(size_t prompt, int done) {
  step_read_ = true;
  Prompt& of = prompts_[prompt];
  num_read_ += done - of.num_read;
  of.num_read = done;
}

void BatchProgress::OnToken(size_t prompt) {
  Prompt& of = prompts_[prompt];
  if (of.has_first_token) {
    ++num_generated_;
    step_generated_ = true;
  } else {
    of.has_first_token = true;
    step_read_ = true;
  }
}

void BatchProgress::EndStep(double seconds) {
  if (step_read_) reading_seconds_ += seconds;
  if (step_generated_) generating_seconds_ += seconds;
  step_read_ = step_generated_ = false;
}

}  // namespace winnow
