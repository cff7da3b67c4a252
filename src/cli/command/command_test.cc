#include "cli/command/command.h"

#include <gtest/gtest.h>

#include "cli/command/flag_value.h"

namespace winnow {
namespace {

// A program with one of each kind of flag.
class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    run_.AddFlag({.name = "MODEL", .required = true}, Text(&model_));
    run_.AddFlag({.name = "FILE", .values = Flag::Values::kOneEachTime},
                 EachText(&files_));
    run_.AddFlag({.name = "--seed", .value_name = "N"},
                 WholeNumber(0, 9, &seed_));
    run_.AddFlag({.name = "--quiet", .values = Flag::Values::kNone},
                 Switch(&quiet_));
    run_.AddFlag({.name = "--json", .values = Flag::Values::kOneOrNone},
                 EachText(&json_));
    for (const char* name : {"--prompt", "--chat"}) {
      run_.AddFlag({.name = name, .values = Flag::Values::kOneEachTime},
                   [this, name](const std::string& text) {
                     prompts_.push_back(std::string(name) + " " + text);
                     return std::string();
                   });
    }
  }

  void SetUp() override {
    other_.AddFlag({.name = "--goals", .values = Flag::Values::kSeveral},
                   EachText(&goals_));
    other_.AddFlag({.name = "--calm", .values = Flag::Values::kNone},
                   Switch(&quiet_));
    other_.AddFlag({.name = "--size", .alias = "-sz", .hidden = true},
                   WholeNumber(0, 9, &seed_));
  }
  Result<bool> Parse(std::vector<std::string> words) {
    words.insert(words.begin(), "winnow");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    return program_.Parse(static_cast<int>(argv.size()), argv.data());
  }
  std::string ErrorOf(const std::vector<std::string>& words) {
    const Result<bool> parsed = Parse(words);
    return parsed.ok() ? "" : parsed.error().message;
  }

  using Texts = std::vector<std::string>;
  Command program_{"A program", "winnow 1", "The end"};
  Command& run_ = program_.AddCommand("run", "Runs");
  Command& other_ = program_.AddCommand("other", "Does not");
  std::string model_;
  Texts files_, json_, prompts_, goals_;
  int seed_ = 0;
  bool quiet_ = false;
};

TEST_F(CommandTest, TakesEveryKindOfFlag) {
  ASSERT_TRUE(*Parse(
      {"run", "m", "a", "b", "--seed", "7", "c", "--quiet", "--json", "out"}));
  EXPECT_TRUE(run_.chosen());
  EXPECT_FALSE(other_.chosen());
  EXPECT_EQ(model_, "m");
  EXPECT_EQ(files_, (Texts{"a", "b", "c"}));
  EXPECT_EQ(json_, Texts{"out"});
  EXPECT_EQ(seed_, 7);
  EXPECT_TRUE(quiet_);
}

TEST_F(CommandTest, TakesWordsUpToTheNextFlag) {
  ASSERT_TRUE(
      *Parse({"other", "--goals", "a:1", "b", "--calm", "--goals", "d"}));
  EXPECT_EQ(goals_, (Texts{"a:1", "b", "d"}));
  EXPECT_TRUE(quiet_);
}

TEST_F(CommandTest, RefusesNoWordWhereThereMustBeOne) {
  EXPECT_NE(ErrorOf({"other", "--goals"}), "");
}

TEST_F(CommandTest, RefusesWordsInBrackets) {
  EXPECT_EQ(ErrorOf({"other", "--goals", "a", "[b,c]"}),
            "--goals must be words without brackets around them");
}

TEST_F(CommandTest, AValueMayBeLeftOutAtTheEnd) {
  ASSERT_TRUE(*Parse({"run", "m", "--json", "--quiet"}));
  EXPECT_EQ(json_, Texts{""});
}

TEST_F(CommandTest, KeepsTheOrderOfTheCommandLine) {
  ASSERT_TRUE(*Parse({"run", "m", "--chat", "1", "--prompt", "[2,3]",
                      "--chat=4", "--prompt", "run", "--prompt", ""}));
  EXPECT_EQ(prompts_, (Texts{"--chat 1", "--prompt [2,3]", "--chat 4",
                             "--prompt run", "--prompt "}));
}

TEST_F(CommandTest, RefusesWhatIsNotThere) {
  EXPECT_EQ(ErrorOf({"walk"}), "command must be run or other, is \"walk\"");
}

TEST_F(CommandTest, NamesTheNearestOfAnUnknownFlag) {
  EXPECT_EQ(ErrorOf({"run", "m", "--sed", "1"}),
            "--sed is no flag of winnow run, did you mean --seed, --json or "
            "--help?");
  EXPECT_EQ(ErrorOf({"run", "m", "--quite=1"}),
            "--quite is no flag of winnow run, did you mean --quiet, --chat or "
            "--seed?");
  EXPECT_TRUE(ErrorOf({"run", "m", "-x"}).starts_with("-x is no flag of "));
  EXPECT_EQ(ErrorOf({"--quiet", "run", "m"}),
            "--quiet is no flag of winnow, did you mean --help?");
  // What is hidden is not named.
  EXPECT_EQ(ErrorOf({"other", "--sizes", "1"}),
            "--sizes is no flag of winnow other, did you mean --goals, --calm "
            "or --help?");
}

TEST_F(CommandTest, OneValueIsGivenOnce) {
  EXPECT_EQ(ErrorOf({"run", "m", "--seed", "1", "--seed=2"}),
            "--seed must be given once, is given again");
  EXPECT_EQ(prompts_, Texts());
}

TEST_F(CommandTest, ANumberBelowZeroIsNoFlag) {
  EXPECT_EQ(ErrorOf({"run", "m", "--seed", "-1"}),
            "--seed must be a whole number in [0, 9], is \"-1\"");
}

TEST_F(CommandTest, TheFlagThatIsUnknownIsNamed) {
  EXPECT_TRUE(ErrorOf({"run", "m", "--seed", "-1", "--quite"})
                  .starts_with("--quite is no flag of winnow run"));
}

TEST_F(CommandTest, AnAliasIsItsFlag) {
  ASSERT_TRUE(*Parse({"other", "--goals", "a", "-sz", "7"}));
  EXPECT_EQ(seed_, 7);
  EXPECT_EQ(goals_, Texts{"a"});
}

TEST_F(CommandTest, AnAliasMayHaveItsValueBehindASign) {
  ASSERT_TRUE(*Parse({"other", "-sz=4"}));
  EXPECT_EQ(seed_, 4);
}

TEST_F(CommandTest, AnAliasIsOfItsCommandAlone) {
  EXPECT_TRUE(
      ErrorOf({"run", "m", "-sz", "7"}).starts_with("-sz is no flag of "));
}

TEST_F(CommandTest, RefusesAValueForAFlagWithoutOne) {
  EXPECT_EQ(ErrorOf({"run", "m", "--quiet=3"}),
            "--quiet takes no value, is --quiet=3");
  EXPECT_FALSE(quiet_);
}

TEST_F(CommandTest, RefusesASecondValue) {
  EXPECT_NE(ErrorOf({"run", "m", "--seed", "1", "--seed", "2"}).find("--seed"),
            std::string::npos);
}

TEST_F(CommandTest, NamesTheFlagWhoseValueIsWrong) {
  EXPECT_EQ(ErrorOf({"run", "m", "--seed", "12"}),
            "--seed must be a whole number in [0, 9], is \"12\"");
}

TEST_F(CommandTest, NamesTheRequiredWordThatIsMissing) {
  EXPECT_EQ(ErrorOf({"run"}), "MODEL is required");
}

}  // namespace
}  // namespace winnow
