// ToLower: ASCII letters, independent of the locale.
#ifndef WINNOW_BASE_ASCII_H_
#define WINNOW_BASE_ASCII_H_

namespace winnow {

constexpr char ToLower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace winnow

#endif  // WINNOW_BASE_ASCII_H_
