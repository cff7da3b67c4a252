#include "base/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace winnow {
namespace {

// In a process of its own, with these limits: what it says, and that it is so.
int64_t RaisedIn(rlim_t soft, rlim_t hard, int64_t num_wanted) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    rlimit limit = {soft, hard};
    setrlimit(RLIMIT_NOFILE, &limit);
    int64_t told = RaiseDescriptorLimit(num_wanted);
    getrlimit(RLIMIT_NOFILE, &limit);
    if (told != static_cast<int64_t>(limit.rlim_cur)) told = -1;
    if (limit.rlim_max != hard) told = -2;
    _exit(write(ends[1], &told, sizeof(told)) == sizeof(told) ? 0 : 1);
  }
  int64_t told = -3;
  EXPECT_EQ(read(ends[0], &told, sizeof(told)), ssize_t{sizeof(told)});
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(ends[0]);
  close(ends[1]);
  return told;
}

TEST(DescriptorLimitTest, GoesAsFarAsItMayAndNoFurther) {
  EXPECT_EQ(RaisedIn(64, 512, 128), 128);
  EXPECT_EQ(RaisedIn(64, 512, 512), 512);
  EXPECT_EQ(RaisedIn(64, 512, INT64_MAX), 512);
  EXPECT_EQ(RaisedIn(64, 64, 65), 64);
}

TEST(DescriptorLimitTest, LeavesAHigherOneAlone) {
  EXPECT_EQ(RaisedIn(256, 512, 128), 256);
  EXPECT_EQ(RaisedIn(256, 512, 256), 256);
}

}  // namespace
}  // namespace winnow
