#include "base/lost_mapping.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

namespace winnow {
namespace {

// Read by a signal's handler at any moment: `begin` is written last when a
// mapping is named and first when it is forgotten, and where it is null the
// others mean nothing.
struct NamedMapping {
  std::atomic<const std::byte*> begin = nullptr;
  size_t num_bytes = 0;
  std::array<char, 4096> path = {};  // longer ones are cut

  bool Has(const void* address) const {
    const std::byte* first = begin.load(std::memory_order_acquire);
    // A page that is lost may end behind the file's last byte.
    constexpr size_t kPage = 4096;
    return first != nullptr && address >= first &&
           address < first + (num_bytes + kPage - 1) / kPage * kPage;
  }
};

std::array<NamedMapping, kMaxNamedMappings> named_mappings;
std::mutex naming;  // of who names and forgets; the handler takes none
const char* line_prefix = "";
int end_status = 1;

void Tell(const char* text) {
  [[maybe_unused]] const ssize_t told =
      write(STDERR_FILENO, text, std::strlen(text));
}

void EndByLostMapping(int number, siginfo_t* info, void*) {
  for (const NamedMapping& mapping : named_mappings) {
    if (!mapping.Has(info->si_addr)) continue;
    Tell(line_prefix);
    Tell(mapping.path.data());
    Tell(": ended while it was mapped, or cannot be read any more\n");
    _exit(end_status);
  }
  signal(number, SIG_DFL);  // raised again where the handler returns to
}

}  // namespace

void NameMapping(std::span<const std::byte> bytes,
                 const std::filesystem::path& path) {
  const std::scoped_lock lock(naming);
  for (NamedMapping& mapping : named_mappings) {
    if (mapping.begin.load(std::memory_order_relaxed) != nullptr) continue;
    mapping.num_bytes = bytes.size();
    mapping.path = {};
    const std::string name = path.string();
    for (size_t i = 0; i + 1 < mapping.path.size() && i < name.size(); ++i) {
      const auto byte = static_cast<unsigned char>(name[i]);
      // One line, whatever a path has.
      mapping.path[i] = byte < 0x20 || byte == 0x7F ? '?' : name[i];
    }
    mapping.begin.store(bytes.data(), std::memory_order_release);
    return;
  }
}

void ForgetMapping(std::span<const std::byte> bytes) {
  const std::scoped_lock lock(naming);
  for (NamedMapping& mapping : named_mappings) {
    if (mapping.begin.load(std::memory_order_relaxed) == bytes.data()) {
      mapping.begin.store(nullptr, std::memory_order_release);
    }
  }
}

void EndWhereMappingsAreLost(const char* prefix, int status) {
  line_prefix = prefix;
  end_status = status;
  struct sigaction action = {};
  action.sa_sigaction = EndByLostMapping;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace winnow
