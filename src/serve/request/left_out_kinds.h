// LeftOutKinds: parts of a request that its model does not get.
#ifndef WINNOW_SERVE_REQUEST_LEFT_OUT_KINDS_H_
#define WINNOW_SERVE_REQUEST_LEFT_OUT_KINDS_H_

#include <string>
#include <unordered_set>
#include <vector>

namespace winnow {

// Kinds of parts, items and tools, each named once, in order:
// "messages.content.image_url", "input.item_reference". An answer's header
// shows them beside the fields without effect.
class LeftOutKinds {
 public:
  void Add(const std::string& name) {
    if (known_.insert(name).second) names_.push_back(name);
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::unordered_set<std::string> known_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_LEFT_OUT_KINDS_H_
