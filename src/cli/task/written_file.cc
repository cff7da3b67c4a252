#include "cli/task/written_file.h"

#include <filesystem>
#include <fstream>

#include "cli/task/eval_task.h"

namespace winnow {

Status CheckIsNoTaskFile(std::string_view flag, const std::string& path) {
  std::ifstream stream(path);
  std::string line;
  std::error_code none;
  if (path.empty() || !std::filesystem::is_regular_file(path, none) ||
      !std::getline(stream, line) || !ParseEvalTask(line, path).ok()) {
    return Ok{};
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} must not be a task file, {} is one", flag, path);
}

Status CheckAreTwoFiles(std::string_view flag, const std::string& path,
                        std::string_view other_flag,
                        const std::string& other_path) {
  std::error_code none;
  if (path.empty() || other_path.empty() ||
      (std::filesystem::absolute(path, none).lexically_normal() !=
           std::filesystem::absolute(other_path, none).lexically_normal() &&
       !(std::filesystem::is_regular_file(path, none) &&
         std::filesystem::equivalent(path, other_path, none)))) {
    return Ok{};
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} must be another file than {}, both are {}", flag,
                   other_flag,
                   path == other_path ? path : path + " and " + other_path);
}

}  // namespace winnow
