#include "cli/task/eval_plan.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "cli/command/golden_tokenizers.h"

namespace winnow {
namespace {

class EvalPlanTest : public testing::Test {
 protected:
  EvalPlanTest()
      : tokenizer_(Tokenizer::Load(kTokenizers / "llama3").value()),
        folder_(std::filesystem::path(testing::TempDir()) /
                ("winnow_eval_plan" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    options_.max_model_len = 1000;
    options_.vocab_size = tokenizer_.vocab_size();
  }
  ~EvalPlanTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& content) {
    const std::string path = (folder_ / name).string();
    EXPECT_TRUE(WriteFile(path, content).ok());
    return path;
  }
  Result<EvalPlan> Read(const std::string& content) {
    return ReadEvalPlan({Write("f.jsonl", content)}, tokenizer_, options_);
  }
  std::string ErrorOf(const std::string& content) {
    const Result<EvalPlan> plan = Read(content);
    EXPECT_FALSE(plan.ok());
    if (plan.ok()) return "";
    EXPECT_EQ(plan.error().code, ErrorCode::kCorrupt);
    return plan.error().message.substr((folder_ / "").string().size());
  }
  static std::string Asking(const std::string& context,
                            const std::string& question,
                            const std::string& answers = R"(["Paris"])") {
    return R"({"task": "t", "length": 1, "context": ")" + context +
           R"(", "question": ")" + question + R"(", "answers": )" + answers +
           "}\n";
  }

  Tokenizer tokenizer_;
  std::filesystem::path folder_;
  EvalPlanOptions options_;
};

TEST_F(EvalPlanTest, LinesThatShareAContextMakeOneGroup) {
  const EvalPlan plan =
      Read(Asking("One text.", "Who?") + "\n" + Asking("Other text.", "Who?") +
           Asking("One text.", "Where was it?"))
          .value();
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.num_questions(), 3);
  ASSERT_EQ(plan.groups[0].questions.size(), 2u);
  EXPECT_EQ(plan.groups[0].questions[1].line, 4);
  EXPECT_EQ(plan.groups[0].prefix,
            tokenizer_.Encode("One text.", true).value());
  // Context, question and answer together spell the text as it is.
  const EvalQuestion& question = plan.groups[0].questions[1];
  std::vector<int32_t> all = plan.groups[0].prefix;
  all.insert(all.end(), question.tokens.begin(), question.tokens.end());
  all.insert(all.end(), question.answer.begin(), question.answer.end());
  EXPECT_EQ(all,
            tokenizer_.Encode("One text. Where was it? Paris", true).value());
  EXPECT_EQ(question.num_question_tokens,
            static_cast<int>(question.tokens.size()));
}

// Each would be read beside the model's table of embeddings.
TEST_F(EvalPlanTest, TokensWithoutARowInTheModelAreRefusedByFieldAndLine) {
  tokenizer_ = Tokenizer::Load(kTokenizers / "wordlevel").value();
  const int last = tokenizer_.vocab_size() - 1;
  options_.vocab_size = last;
  const std::string known = tokenizer_.TokenText(7).value();
  const std::string word = tokenizer_.TokenText(last).value();
  const auto list = [](const std::string& answer) {
    return "[\"" + answer + "\"]";
  };
  const std::string good = Asking(known, known, list(known));
  for (const auto& [bad, field] :
       {std::pair(Asking(word, known, list(known)), "context"),
        std::pair(Asking(known, word, list(known)), "question"),
        std::pair(Asking(known, known, list(word)), "answers")}) {
    options_.skip_bad = false;
    EXPECT_EQ(
        ErrorOf(good + bad),
        fmt::format("f.jsonl:2: field {}: token \"{}\" must have an id below "
                    "{} (the model's vocab_size), has {}",
                    field, word, last, last));
    options_.skip_bad = true;
    EXPECT_EQ(Read(good + bad).value().skipped.size(), 1u);
  }
}

TEST_F(EvalPlanTest, AnswersThatNoTokenSpellsAreRefused) {
  tokenizer_ = Tokenizer::Load(kTokenizers / "wordlevel").value();
  options_.vocab_size = tokenizer_.vocab_size();
  const std::string word = tokenizer_.TokenText(7).value();
  EXPECT_TRUE(Read(Asking(word, word, "[\"" + word + "\"]")).ok());
  const std::string line = Asking(word, word, R"(["unspeakableword"])");
  const std::string error = ErrorOf(line);
  EXPECT_EQ(error.find("f.jsonl:1: field answers: must be text that the "
                       "model's tokens spell, unspeakableword reads "),
            0u)
      << error;
  options_.match = MatchRule::kRegex;
  EXPECT_TRUE(Read(line).ok());
}

TEST_F(EvalPlanTest, AnswersWithLessRoomThanOthersAreCounted) {
  const std::string line = Asking("aa", "bb", R"(["bb"])");
  EXPECT_EQ(Read(line).value().num_cramped, 0);
  const EvalPlan roomy = Read(line).value();
  const EvalQuestion& question = roomy.groups[0].questions[0];
  const auto num_before =
      static_cast<int>(roomy.groups[0].prefix.size() + question.tokens.size());
  options_.max_model_len = num_before + question.max_tokens - 1;
  EXPECT_EQ(Read(line).value().num_cramped, 0);
  --options_.max_model_len;
  const EvalPlan cramped = Read(line + line).value();
  EXPECT_EQ(cramped.num_cramped, 2);
  EXPECT_EQ(cramped.groups[0].questions[1].max_tokens, question.max_tokens - 1);
  EXPECT_NE(cramped.first_cramped.find(fmt::format(
                "f.jsonl:1: field context: {} tokens leave {} for the answer "
                "in the context of {} (max-model-len), not {}",
                num_before, question.max_tokens - 1, options_.max_model_len,
                question.max_tokens)),
            std::string::npos)
      << cramped.first_cramped;
}

TEST_F(EvalPlanTest, APromptLeavesItsLastTokenToBeFed) {
  const EvalPlan plan = Read(R"({"task": "t", "length": 1, "prompt": )"
                             R"("The capital is", "answers": ["Paris"]})")
                            .value();
  const EvalQuestion& question = plan.groups[0].questions[0];
  EXPECT_EQ(question.num_question_tokens, 0);
  EXPECT_EQ(question.tokens.size(), 1u);
  EXPECT_EQ(plan.groups[0].prefix.size() + 1,
            tokenizer_.Encode("The capital is", true)->size());
}

TEST_F(EvalPlanTest, TextIsSpelledAsBehindAnother) {
  for (const char* name : {"llama2", "llama3", "qwen2", "mistral"}) {
    const Tokenizer tokenizer = Tokenizer::Load(kTokenizers / name).value();
    for (const char* text : {" where?", " 4 5 7", "\nAnswer: yes"}) {
      std::vector<int32_t> ids = tokenizer.Encode("He said so.", true).value();
      const auto behind = EncodeAfter(tokenizer, "He said so.", text).value();
      ids.insert(ids.end(), behind.begin(), behind.end());
      EXPECT_EQ(tokenizer.Decode(ids, true).value(),
                std::string("He said so.") + text)
          << name;
    }
  }
}

TEST_F(EvalPlanTest, MaxTokensComeFromTheAnswerOrTheUserAndFit) {
  const auto question = [&] {
    return Read(Asking("A text.", "Who?")).value().groups[0].questions[0];
  };
  const int num_answer = static_cast<int>(question().answer.size());
  EXPECT_EQ(question().max_tokens, 2 * num_answer + 32);
  options_.max_tokens = 7;
  EXPECT_EQ(question().max_tokens, 7);
  options_.max_tokens.reset();
  const auto before =
      static_cast<int>(tokenizer_.Encode("A text. Who?", true).value().size());
  // The answer fits, its slack does not.
  options_.max_model_len = before + num_answer;
  EXPECT_EQ(question().max_tokens, num_answer + 1);
  options_.max_model_len = before + num_answer - 2;
  EXPECT_EQ(ErrorOf(Asking("A text.", "Who?")),
            fmt::format("f.jsonl:1: field context: must fit the context of {} "
                        "tokens (max-model-len) with question and answer, is "
                        "{} + {}",
                        options_.max_model_len, before, num_answer));
}

TEST_F(EvalPlanTest, LimitIsOfLinesAndTheDigestOfWhatWasRead) {
  const std::string first = Asking("A text.", "Who?");
  options_.limit = 1;
  const EvalPlan one = Read(first + "{not read").value();
  EXPECT_EQ(one.num_questions(), 1);
  EXPECT_EQ(one.files[0].digest, Read(first)->files[0].digest);
  EXPECT_NE(one.files[0].digest,
            Read(Asking("A text.", "Why?"))->files[0].digest);
}

TEST_F(EvalPlanTest, BadLinesEndItOrAreSkippedAndKept) {
  const std::string bad = Asking("A text.", "Who?", "[]");
  const std::string lines = Asking("A text.", "Who?") + bad + "{\n";
  EXPECT_EQ(ErrorOf(lines).find("f.jsonl:2: field answers: must be"), 0u);
  options_.skip_bad = true;
  const EvalPlan plan = Read(lines).value();
  EXPECT_EQ(plan.num_questions(), 1);
  ASSERT_EQ(plan.skipped.size(), 2u);
  EXPECT_NE(plan.skipped[1].find("f.jsonl:3: not valid JSON"),
            std::string::npos);
  const std::string none = Read(bad).error().message;
  EXPECT_EQ(none.find("no line is left to answer: all 1 were skipped"), 0u);
  EXPECT_EQ(ErrorOf(""), "f.jsonl: must have at least 1 line, is empty");
  EXPECT_NE(ReadEvalPlan({"/nowhere/f"}, tokenizer_, options_)
                .error()
                .message.find("/nowhere/f: cannot be read: No such file"),
            std::string::npos);
}

TEST_F(EvalPlanTest, AnswersInAnyOrderHaveTokensEach) {
  const std::string line =
      R"({"task": "t", "length": 1, "prompt": "Which?", )"
      R"("answers": ["Rome", "Paris or Lyon"], "unordered": true})";
  const EvalPlan plan = Read(line).value();
  const EvalQuestion& question = plan.groups[0].questions[0];
  ASSERT_EQ(question.unordered.size(), 2u);
  EXPECT_EQ(tokenizer_.Decode(question.unordered[0][0], false).value(),
            " Paris or Lyon");
  EXPECT_EQ(tokenizer_.Decode(question.unordered[1][0], false).value(),
            " Rome");
  // Behind a blank the first one has none of its own: together as they stand.
  const EvalPlan lines =
      Read(R"({"task": "t", "length": 1, "prompt": "Which?\n", )"
           R"("answers": ["Lyon", "Rome"], "unordered": true})")
          .value();
  const EvalQuestion& behind = lines.groups[0].questions[0];
  for (const bool swapped : {false, true}) {
    std::vector<int32_t> both = behind.unordered[swapped ? 1 : 0][0];
    const std::vector<int32_t>& later = behind.unordered[swapped ? 0 : 1][1];
    both.insert(both.end(), later.begin(), later.end());
    EXPECT_EQ(tokenizer_.Decode(both, false).value(),
              swapped ? "Rome Lyon" : "Lyon Rome");
    if (!swapped) {
      EXPECT_EQ(both, behind.answer);
    }
  }
  options_.match = MatchRule::kRegex;
  EXPECT_TRUE(Read(line).value().groups[0].questions[0].unordered.empty());
  const EvalPlan ordered = Read(Asking("A.", "Who?")).value();
  EXPECT_TRUE(ordered.groups[0].questions[0].unordered.empty());
}

TEST_F(EvalPlanTest, PatternsHaveNoTokensToBeRight) {
  options_.match = MatchRule::kRegex;
  const EvalPlan plan = Read(Asking("A.", "Who?", R"(["[Pp]aris"])")).value();
  EXPECT_TRUE(plan.groups[0].questions[0].answer.empty());
  EXPECT_GT(plan.groups[0].questions[0].max_tokens, 32);
  EXPECT_NE(ErrorOf(Asking("A.", "Who?", R"(["(a"])"))
                .find("f.jsonl:1: field answers: must be regular expressions"),
            std::string::npos);
}

TEST_F(EvalPlanTest, PagesOfAGroup) {
  EvalGroup group = Read(Asking("A text.", "Who?")).value().groups[0];
  group.prefix.resize(45);
  group.questions[0].tokens.resize(10);
  group.questions[0].max_tokens = 10;
  EXPECT_EQ(group.MaxLength(), 65);
  EXPECT_EQ(PrefixPages(group), 2);
  EXPECT_EQ(AnswerPages(group), 1);  // 64 tokens, of which 32 are shared
  group.questions[0].max_tokens = 11;
  EXPECT_EQ(AnswerPages(group), 2);
}

}  // namespace
}  // namespace winnow
