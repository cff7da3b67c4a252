#include "cli/command/fingerprint.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

uint64_t Of(std::initializer_list<std::string_view> pieces) {
  Fingerprint fingerprint;
  for (const std::string_view piece : pieces) fingerprint.Add(piece);
  return fingerprint.value();
}

TEST(FingerprintTest, PiecesAndTheirBordersCount) {
  EXPECT_EQ(Of({"ab", "c"}), Of({"ab", "c"}));
  EXPECT_NE(Of({"ab", "c"}), Of({"a", "bc"}));
  EXPECT_NE(Of({"ab"}), Of({"ab", ""}));
  EXPECT_NE(Of({"ab"}), Of({"ba"}));
}

}  // namespace
}  // namespace winnow
