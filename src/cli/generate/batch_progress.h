// BatchProgress: the tokens that a batch of prompts has read and generated,
// with times.
#ifndef WINNOW_CLI_GENERATE_BATCH_PROGRESS_H_
#define WINNOW_CLI_GENERATE_BATCH_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace winnow {

// Observes every prompt of a batch, step by step. A step's time counts as
// reading if it read a prompt's tokens, and as generating if it generated any,
// so neither rate is overstated. A prompt's first token comes from the step
// that read its end, and does not count as generated.
class BatchProgress {
 public:
  explicit BatchProgress(const std::vector<int>& prompt_tokens);

  // `done` tokens of the prompt are read, more than before.
  void OnRead(size_t prompt, int done);
  void OnToken(size_t prompt);
  // Ends the step of the calls since the last EndStep.
  void EndStep(double seconds);

  int64_t num_prompt_tokens() const { return num_prompt_tokens_; }
  int64_t num_read() const { return num_read_; }
  int64_t num_generated() const { return num_generated_; }
  double reading_seconds() const { return reading_seconds_; }
  double generating_seconds() const { return generating_seconds_; }

 private:
  struct Prompt {
    int num_read = 0;
    bool has_first_token = false;
  };
  std::vector<Prompt> prompts_;
  int64_t num_prompt_tokens_ = 0;
  int64_t num_read_ = 0;
  int64_t num_generated_ = 0;
  double reading_seconds_ = 0;
  double generating_seconds_ = 0;
  bool step_read_ = false;
  bool step_generated_ = false;
};

}  // namespace winnow

#endif  // WINNOW_CLI_GENERATE_BATCH_PROGRESS_H_
