#include "model/forward/model.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(ModelTest, AFolderThatIsNoneIsNamed) {
  EXPECT_EQ(Model::Load("/nowhere", {}).error().message,
            "/nowhere: must be a folder with config.json and "
            "model.safetensors, is not there");
  EXPECT_EQ(Model::Load("/etc/passwd", {}).error().message,
            "/etc/passwd: must be a folder with config.json and "
            "model.safetensors, is a file");
}

}  // namespace
}  // namespace winnow
