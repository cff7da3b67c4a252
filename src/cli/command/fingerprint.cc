#include "cli/command/fingerprint.h"

#include <fmt/format.h>

namespace winnow {

void Fingerprint::AddBytes(std::string_view bytes) {
  for (const char byte : bytes) {
    state_ = (state_ ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  }
}

void Fingerprint::Add(std::string_view piece) {
  AddBytes(fmt::format("{}:", piece.size()));
  AddBytes(piece);
}

}  // namespace winnow
