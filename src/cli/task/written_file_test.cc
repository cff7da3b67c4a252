#include "cli/task/written_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace winnow {
namespace {

class WrittenFileTest : public testing::Test {
 protected:
  WrittenFileTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directory(folder_);
  }
  ~WrittenFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ / name;
    std::ofstream(path) << text;
    return path;
  }

  const std::filesystem::path folder_;
};

TEST_F(WrittenFileTest, ATaskFileIsKnownByItsFirstLine) {
  const std::string tasks =
      Write("a.jsonl", R"({"task":"a","length":9,"prompt":"x","answers":["y"]})"
                       "\n");
  EXPECT_EQ(CheckIsNoTaskFile("--out", tasks).error().message,
            "--out must not be a task file, " + tasks + " is one");
  EXPECT_TRUE(CheckIsNoTaskFile("--out", Write("b.json", "{}\n")).ok());
  EXPECT_TRUE(CheckIsNoTaskFile("--out", Write("empty", "")).ok());
  EXPECT_TRUE(CheckIsNoTaskFile("--out", folder_ / "none").ok());
  EXPECT_TRUE(CheckIsNoTaskFile("--out", folder_).ok());
  EXPECT_TRUE(CheckIsNoTaskFile("--out", "").ok());
}

TEST_F(WrittenFileTest, TwoFilesAreNotOneByAnotherName) {
  const std::string file = Write("a.trace", "a");
  const std::string linked = folder_ / "link";
  std::filesystem::create_symlink(file, linked);
  EXPECT_EQ(CheckAreTwoFiles("--json", file, "TRACE", file).error().message,
            "--json must be another file than TRACE, both are " + file);
  for (const std::string& same :
       {linked, (folder_ / "." / "a.trace").string()}) {
    const Status two = CheckAreTwoFiles("--json", same, "TRACE", file);
    ASSERT_FALSE(two.ok()) << same;
    EXPECT_EQ(two.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(two.error().message.find(same), std::string::npos);
  }
  const std::string none = folder_ / "none";
  EXPECT_FALSE(CheckAreTwoFiles("--json", none, "TRACE", none).ok());
  EXPECT_TRUE(CheckAreTwoFiles("--json", none, "TRACE", file).ok());
  EXPECT_TRUE(CheckAreTwoFiles("--json", Write("b", "a"), "TRACE", file).ok());
  EXPECT_TRUE(CheckAreTwoFiles("--json", "", "TRACE", file).ok());
}

}  // namespace
}  // namespace winnow
