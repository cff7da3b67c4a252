// What a batch of prompts has read and generated, and in which time.
#ifndef WINNOW_CLI_GENERATE_BATCH_PROGRESS_H_
#define WINNOW_CLI_GENERATE_BATCH_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace winnow {

// Hears of every prompt of a batch, step by step. A step's time counts for
// reading where it read any prompt's tokens, for generating where it generated
// any, for both where it did both: so neither rate is larger than what was
// seen. A prompt's first token comes out of the step that read its end, and is
// none of those generated.
class BatchProgress {
 public:
  explicit BatchProgress(const std::vector<int>& prompt_tokens);

  // `done` of the prompt's tokens are read, more than before.
  void OnRead(size_t prompt, int done);
  void OnToken(size_t prompt);
  // The step that told this has ended.
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
