// In which order pages leave the device.
#include <algorithm>
#include <map>

#include "kv/prefix_index.h"

namespace winnow {

std::vector<PagePlaces> PrefixIndex::NextToEvict(int64_t num_pages) const {
  std::vector<PagePlaces> leaving;
  ByLastUse next;                       // of those above pages that have left
  std::map<NodeId, uint32_t> num_left;  // of the device below a page
  auto idle = evictable_.begin();
  while (std::ssize(leaving) < num_pages) {
    NodeId node;
    if (!next.empty() && (idle == evictable_.end() || *next.begin() < *idle)) {
      node = next.begin()->second;
      next.erase(next.begin());
    } else if (idle != evictable_.end()) {
      node = (idle++)->second;
    } else {
      break;
    }
    leaving.push_back(nodes_[node].places);
    const NodeId parent = nodes_[node].parent;
    const Node& above = nodes_[parent];
    if (!above.places.device || above.num_users > 0) continue;
    if (++num_left[parent] == above.num_device_children) {
      next.insert({above.last_use, parent});
    }
  }
  return leaving;
}

}  // namespace winnow
