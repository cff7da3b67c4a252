#include "cli/serve/connection_limit.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(ConnectionLimitTest, WhatIsAskedForIsKeptOrRefused) {
  EXPECT_EQ(ConnectionLimit(1000, 1256).value(), 1000);
  const auto refused = ConnectionLimit(1001, 1256);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  for (const char* word :
       {"--max-connections", "at most 1000", "1256", "ulimit -Hn", "is 1001"}) {
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << word;
  }
}

TEST(ConnectionLimitTest, TheDefaultIsWhatTheSystemAllows) {
  EXPECT_EQ(ConnectionLimit({}, INT64_MAX).value(), kDefaultMaxConnections);
  EXPECT_EQ(ConnectionLimit({}, 1024).value(), 768);
  EXPECT_EQ(ConnectionLimit({}, 257).value(), 1);
  for (const int64_t limit : {256, 100, 0}) {
    EXPECT_FALSE(ConnectionLimit({}, limit).ok()) << limit;
  }
}

}  // namespace
}  // namespace winnow
