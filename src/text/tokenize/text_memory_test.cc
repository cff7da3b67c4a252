// Where memory ends, text is refused: the Rust library, which can only end the
// process, is never called for what it has no room for.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/memory_reserve.h"
#include "source_dir.h"
#include "text/chat_template.h"
#include "text/grammar/grammar.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {
namespace {

constexpr const char* kModel = WINNOW_SOURCE_DIR "/lab/models/winnow-lab";
constexpr size_t kStepBytes = size_t{16} << 20;
constexpr int kNumSteps = 24;
// Of the thread on which a template or a grammar is read.
constexpr size_t kStackBytes = size_t{1} << 30;

// How often a process with so much more address space than this has could do
// it, was told kIo, and failed otherwise.
struct Tally {
  int num_done = 0, num_told = 0, num_ended = 0;
};

enum Outcome { kDone = 0, kTold = 40, kFailed = 41 };

void LimitAddressSpace(size_t num_more_bytes) {
  size_t num_pages = 0;
  std::ifstream("/proc/self/statm") >> num_pages;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const rlim_t most = num_pages * page + num_more_bytes;
  const rlimit limit = {most, most};
  if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(kFailed);
}

template <typename T>
Outcome OutcomeOf(const Result<T>& result) {
  if (result.ok()) return kDone;
  return result.error().code == ErrorCode::kIo ? kTold : kFailed;
}

Tally Try(const std::function<Outcome()>& work, size_t least_bytes) {
  Tally tally;
  for (int step = 0; step < kNumSteps; ++step) {
    const pid_t child = fork();
    if (child == 0) {
      LimitAddressSpace(least_bytes + static_cast<size_t>(step) * kStepBytes);
      try {
        _exit(work());
      } catch (const std::bad_alloc&) {
        _exit(kTold);
      }
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    tally.num_done += code == kDone;
    tally.num_told += code == kTold;
    tally.num_ended += code != kDone && code != kTold;
  }
  return tally;
}

// Told at first and done at last, and nothing else.
void ExpectToldOrDone(const std::function<Outcome()>& work,
                      size_t least_bytes = 0) {
  const Tally tally = Try(work, least_bytes);
  EXPECT_EQ(tally.num_ended, 0);
  EXPECT_GT(tally.num_told, 0);
  EXPECT_GT(tally.num_done, 0);
}

std::string FilledWith(std::string_view piece, size_t num_bytes) {
  std::string text;
  while (text.size() < num_bytes) text += piece;
  return text;
}

class TextMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer takes terabytes of address space";
#endif
  }
};

TEST_F(TextMemoryTest, EncodingIsRefusedOrDone) {
  const Tokenizer tokenizer = Tokenizer::Load(kModel).value();
  constexpr size_t kTextBytes = 300'000;
  for (const std::string_view piece :
       {"the quick brown fox ", "a", "\xf0\x9f\x90\xba", "1 ", "\n", " ,.;"}) {
    SCOPED_TRACE(piece);
    const std::string text = FilledWith(piece, kTextBytes);
    ExpectToldOrDone([&] { return OutcomeOf(tokenizer.Encode(text, false)); });
  }
}

TEST_F(TextMemoryTest, DecodingIsRefusedOrDone) {
  const Tokenizer tokenizer = Tokenizer::Load(kModel).value();
  const std::vector<int32_t> ids(300'000, tokenizer.vocab_size() - 1);
  ExpectToldOrDone([&] { return OutcomeOf(tokenizer.Decode(ids, false)); });
}

TEST_F(TextMemoryTest, AGrammarIsRefusedOrDone) {
  const Tokenizer tokenizer = Tokenizer::Load(kModel).value();
  const GrammarLimits limits = {.max_states = 20'000};
  const std::vector<int32_t> ends = {*tokenizer.eos_id()};
  const Grammar grammar = {.kind = GrammarKind::kRegex,
                           .source = "[a-z ]{1,400}"};
  const auto compile = [&] {
    const auto vocabulary = GrammarVocabulary::Create(
        tokenizer, tokenizer.vocab_size(), ends, limits);
    if (!vocabulary.ok()) return OutcomeOf(vocabulary);
    return OutcomeOf(vocabulary->Compile(grammar));
  };
  EXPECT_EQ(Try(compile, 0).num_told, kNumSteps);
  ExpectToldOrDone(compile, kStackBytes);
}

TEST_F(TextMemoryTest, AConversationIsRefusedOrDone) {
  const ChatTemplate chat_template =
      ChatTemplate::FromText(
          "here", {.chat_template_jinja = "{{ messages[0].content }}"})
          .value();
  const std::string messages = R"([{"role": "user", "content": ")" +
                               FilledWith("hello ", 100'000) + R"("}])";
  const auto render = [&] {
    ChatInput input;
    input.messages_json = messages;
    return OutcomeOf(chat_template.Render(input));
  };
  EXPECT_EQ(Try(render, 0).num_told, kNumSteps);
  ExpectToldOrDone(render, kStackBytes);
}

}  // namespace
}  // namespace winnow
