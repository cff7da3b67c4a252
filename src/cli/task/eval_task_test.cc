#include "cli/task/eval_task.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

std::string ErrorOf(const std::string& line) {
  const Result<EvalTask> task = ParseEvalTask(line, "f.jsonl:3");
  EXPECT_FALSE(task.ok()) << line;
  if (task.ok()) return "";
  EXPECT_EQ(task.error().code, ErrorCode::kCorrupt) << line;
  EXPECT_EQ(task.error().message.find('\n'), std::string::npos);
  return task.error().message;
}

TEST(EvalTaskTest, ReadsBothFormsAndIgnoresOtherFields) {
  const EvalTask asked =
      ParseEvalTask(R"({"task": "niah", "length": 4096, "answers": ["3 1"],)"
                    R"("context": "c", "question": "q?", "depth": 0.5,)"
                    R"("conversation": [{"turn": 1}], "unordered": null})",
                    "f:1")
          .value();
  EXPECT_EQ(asked.task, "niah");
  EXPECT_EQ(asked.length, 4096);
  EXPECT_EQ(asked.answers, std::vector<std::string>{"3 1"});
  EXPECT_EQ(asked.context, "c");
  EXPECT_EQ(asked.question, "q?");
  EXPECT_FALSE(asked.unordered);
  const EvalTask plain =
      ParseEvalTask(R"({"task": "t", "length": 0, "answers": ["a", "b"],)"
                    R"("prompt": "p", "unordered": true})",
                    "f:1")
          .value();
  EXPECT_EQ(plain.context, "p");
  EXPECT_FALSE(plain.question.has_value());
  EXPECT_TRUE(plain.unordered);
  EXPECT_EQ(JoinedAnswers(plain.answers), "a b");
}

TEST(EvalTaskTest, RefusesWithFileLineFieldAndValue) {
  EXPECT_EQ(ErrorOf(R"({"task": )"), "f.jsonl:3: not valid JSON at byte 10");
  EXPECT_EQ(ErrorOf("[1]"), "f.jsonl:3: must be a JSON object, is [1]");
  EXPECT_EQ(ErrorOf("{\"task\": \"a\xff\"}"),
            "f.jsonl:3: must be UTF-8, byte 12 of the line is 0xff");
  EXPECT_EQ(ErrorOf("{\"task\": \"a\xe2\x82\"}"),
            "f.jsonl:3: must be UTF-8, byte 12 of the line is 0xe2");
  EXPECT_EQ(ErrorOf(R"({"task": 7})"),
            "f.jsonl:3: field task: must be a string, is 7");
  EXPECT_EQ(ErrorOf(R"({"length": 7})"),
            "f.jsonl:3: field task: must be a string, is missing");
  const auto rest = [](const std::string& fields) {
    return ErrorOf(R"({"task": "t", )" + fields + "}");
  };
  EXPECT_NE(rest(R"("answers": [])").find("field length: must be an integer"),
            std::string::npos);
  EXPECT_NE(rest(R"("length": -1)").find("is -1"), std::string::npos);
  EXPECT_NE(rest(R"("length": 1.5)").find("is 1.5"), std::string::npos);
  EXPECT_EQ(rest(R"("length": 1, "answers": ["a"])"),
            "f.jsonl:3: field prompt: must be a text, or else context and "
            "question, is missing");
  EXPECT_EQ(rest(R"("length": 1, "context": "c")"),
            "f.jsonl:3: field question: must be a string, is missing");
  EXPECT_EQ(rest(R"("length": 1, "question": "c")"),
            "f.jsonl:3: field context: must be a string, is missing");
  EXPECT_EQ(rest(R"("length": 1, "prompt": "p", "question": "q")"),
            "f.jsonl:3: field question: must be missing where there is a "
            "prompt, is \"q\"");
  EXPECT_EQ(rest(R"("length": 1, "prompt": " ")"),
            "f.jsonl:3: field prompt: must be a text that is not blank, is "
            "\" \"");
  const std::string prompt = R"("length": 1, "prompt": "p", )";
  for (const char* answers : {R"([])", R"([""])", R"(["a", " \n"])"}) {
    EXPECT_NE(rest(prompt + R"("answers": )" + answers)
                  .find("field answers: must be a list of at least 1 text, "
                        "none of them blank, is ["),
              std::string::npos)
        << answers;
  }
  EXPECT_NE(rest(prompt + R"("answers": ["a", 1])")
                .find("field answers[1]: must be a string, is 1"),
            std::string::npos);
  for (const char* answers : {R"("a")", "{}"}) {
    EXPECT_NE(rest(prompt + R"("answers": )" + answers)
                  .find("field answers: must be a list of strings, is "),
              std::string::npos)
        << answers;
  }
  EXPECT_NE(rest(prompt + R"("answers": ["a"], "unordered": 1)")
                .find("field unordered: must be true or false, is 1"),
            std::string::npos);
}

}  // namespace
}  // namespace winnow
