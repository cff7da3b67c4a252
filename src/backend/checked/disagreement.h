// Disagreement: compares what two backends made of the same numbers.
#ifndef WINNOW_BACKEND_CHECKED_DISAGREEMENT_H_
#define WINNOW_BACKEND_CHECKED_DISAGREEMENT_H_

#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/checked/twin_memory.h"

namespace winnow {

// Compares device memory with its twin, and then makes the twin equal to it.
// Keeps the first difference. Used by one thread.
class Disagreement {
 public:
  // REQUIRES: both outlive this.
  Disagreement(Backend& subject, const TwinMemory& twins)
      : subject_(subject), twins_(twins) {}

  // What the next comparisons are of. `queue` is the subject's.
  void Begin(std::string_view op, Queue& queue);

  // Floats within a share of their row's greatest, integers equal. Rows are of
  // the view's last dimension.
  void CompareView(std::string_view what, const View& view);
  // Bytes of a piece of memory as elements of `dtype`.
  void ComparePiece(std::string_view what, const std::byte* inside,
                    Dtype dtype);
  void ComparePicks(const PickLists& lists);
  // Compares nothing: what the subject has there goes on.
  void TakeOver(const std::byte* inside);

  // Empty: none so far.
  const std::string& first() const { return first_; }

 private:
  // The bytes from a view's first element to behind its last, brought to the
  // host; empty where nothing is to compare.
  std::vector<std::byte> Fetch(const View& view);
  void CompareRow(std::string_view what, const View& view, int64_t row,
                  const std::byte* got);
  void CompareList(const PickLists& got, const PickLists& twin, int64_t row,
                   int64_t list);
  template <typename... Args>
  void Report(fmt::format_string<Args...> format, Args&&... args);

  Backend& subject_;
  const TwinMemory& twins_;
  Queue* queue_ = nullptr;
  std::string op_;
  int64_t num_ops_ = 0;
  std::string first_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CHECKED_DISAGREEMENT_H_
