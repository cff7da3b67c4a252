#include "cli/eval/eval_journal.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"

namespace winnow {
namespace {

constexpr EvalOutcome kFirst = {.exact = true,
                                .num_answer_tokens = 5,
                                .num_right = 4,
                                .num_free_right = 3,
                                .num_decode_rows = 12,
                                .tokens_read_share = 0.1 + 0.2,
                                .seconds = 1.0 / 3};
constexpr EvalOutcome kSecond = {.num_answer_tokens = 2, .seconds = 1e-9};
const EvalIdentity kIdentity = {{"model", "some/model"}, {"dtype", "auto"}};

class EvalJournalTest : public testing::Test {
 protected:
  EvalJournalTest()
      : path_((std::filesystem::path(testing::TempDir()) /
               ("winnow_journal" + std::to_string(getpid())))
                  .string()) {
    std::filesystem::remove(path_);
  }
  ~EvalJournalTest() override { std::filesystem::remove(path_); }

  // Makes a journal of two answers.
  void WriteTwo() {
    EvalOutcomes outcomes;
    EvalJournal journal =
        EvalJournal::Open(path_, kIdentity, &outcomes).value();
    EXPECT_TRUE(outcomes.empty());
    EXPECT_TRUE(journal.Append({0, 3, 0}, kFirst).ok());
    EXPECT_TRUE(journal.Append({1, 2, 1}, kSecond).ok());
  }
  EvalOutcomes Reopened() {
    EvalOutcomes outcomes;
    const auto journal = EvalJournal::Open(path_, kIdentity, &outcomes);
    EXPECT_TRUE(journal.ok()) << journal.error().message;
    return outcomes;
  }
  std::string Content() const { return ReadFile(path_, 1 << 20).value(); }
  void SetContent(const std::string& content) {
    ASSERT_TRUE(WriteFile(path_, content).ok());
  }

  const std::string path_;
  const EvalOutcomes both_ = {{{0, 3, 0}, kFirst}, {{1, 2, 1}, kSecond}};
};

TEST_F(EvalJournalTest, GivesBackEveryBit) {
  WriteTwo();
  EXPECT_EQ(Reopened(), both_);
  EXPECT_EQ(Reopened(), both_);
}

TEST_F(EvalJournalTest, ALineThatWasCutOffIsDroppedWhereverItWasCut) {
  WriteTwo();
  const std::string whole = Content();
  const size_t second = whole.rfind('\n', whole.size() - 2) + 1;
  for (const size_t size : {second, second + 1, whole.size() - 1}) {
    SetContent(whole.substr(0, size));
    EXPECT_EQ(Reopened(), (EvalOutcomes{{{0, 3, 0}, kFirst}})) << size;
    EXPECT_EQ(Content(), whole.substr(0, second)) << size;
  }
  // Within the header, it begins anew.
  SetContent(whole.substr(0, 10));
  EXPECT_TRUE(Reopened().empty());
  EXPECT_EQ(Content(), whole.substr(0, whole.find('\n') + 1));
}

TEST_F(EvalJournalTest, AnotherEvaluationsIsRefusedAndLeftAlone) {
  WriteTwo();
  const std::string whole = Content();
  const auto error_with = [&](const EvalIdentity& identity) {
    EvalOutcomes outcomes;
    const auto journal = EvalJournal::Open(path_, identity, &outcomes);
    EXPECT_FALSE(journal.ok());
    EXPECT_TRUE(outcomes.empty());
    EXPECT_EQ(Content(), whole);
    return journal.ok() ? "" : journal.error().message;
  };
  EXPECT_EQ(error_with({{"model", "some/model"}, {"dtype", "float32"}}),
            path_ +
                ": is of another evaluation: dtype must be float32, is auto; "
                "remove it to begin anew");
  EXPECT_NE(error_with({{"model", "some/model"}, {"seed", "0"}})
                .find("seed must be 0, is missing"),
            std::string::npos);
  // What it has and this evaluation lacks: a field that is gone.
  EXPECT_NE(error_with({{"model", "some/model"}})
                .find("dtype must be missing, is auto"),
            std::string::npos);
}

TEST_F(EvalJournalTest, OtherFilesAreRefusedAndLeftAlone) {
  for (const std::string content :
       {"notes", "notes\n", "{\"model\": 1}\n", "[]\n"}) {
    SetContent(content);
    EvalOutcomes outcomes;
    const auto journal = EvalJournal::Open(path_, kIdentity, &outcomes);
    ASSERT_FALSE(journal.ok());
    EXPECT_NE(journal.error().message.find("is another file"),
              std::string::npos);
    EXPECT_EQ(Content(), content);
  }
}

TEST_F(EvalJournalTest, ABrokenLineIsNamed) {
  WriteTwo();
  std::string content = Content();
  content.insert(content.find("\"line\":3") + 7, "-");
  SetContent(content);
  EvalOutcomes outcomes;
  const auto journal = EvalJournal::Open(path_, kIdentity, &outcomes);
  ASSERT_FALSE(journal.ok());
  EXPECT_NE(journal.error().message.find(path_ + ":2: field line: must be"),
            std::string::npos)
      << journal.error().message;
}

TEST_F(EvalJournalTest, HasOneWriterAtATime) {
  EvalOutcomes outcomes;
  const auto first = EvalJournal::Open(path_, kIdentity, &outcomes);
  ASSERT_TRUE(first.ok());
  const auto second = EvalJournal::Open(path_, kIdentity, &outcomes);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("another evaluation is writing"),
            std::string::npos);
}

TEST_F(EvalJournalTest, IsTakenAwayInTheEnd) {
  EvalOutcomes outcomes;
  EvalJournal journal = EvalJournal::Open(path_, kIdentity, &outcomes).value();
  EXPECT_TRUE(journal.Remove().ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace winnow
