// Encodes a trace as bytes, and decodes untrusted bytes.
#ifndef WINNOW_SIMULATE_TRACE_BYTES_H_
#define WINNOW_SIMULATE_TRACE_BYTES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "simulate/trace.h"

namespace winnow {

// Numbers are LEB128: seven bits a byte, the lowest first, the highest bit set
// where more follow. A text is its length and its bytes. A list of numbers is
// preceded by its length. In order:
//
//   header   model, select, q heads, KV heads, head_dim, bytes of an element of
//            K, summary bytes, layers, of each 0 or 1, levels, of each its
//            distance from the one before
//   request  task, origin, 0 or 1 (answered right), first position, steps; a
//            step is its number of rows and, of each choosing layer and row,
//            the number of lists and each list
//   list     0: reads all; else 1, and of each level how many picks, of each
//            4 * (page - the band's page before it, or page) and, added, 0: all
//            32 tokens are read, 1: the first 16, 2: the last 16, 3: those of a
//            mask that follows, four bytes, the lowest first. Behind the picks
//            of a level that has any 0: none has a score; else 1, and least and
//            most of its BandScores (trace.h), float32, four bytes each, the
//            lowest first, and a byte a pick: its step
std::string EncodeHeader(const TraceHeader& header);
std::string EncodeRequest(const TraceHeader& header,
                          const TraceRequest& request);

// Nothing if the bytes are no header, or no request of this header. Causes are
// too few or too many bytes, a number out of range, or pages that do not
// ascend.
std::optional<TraceHeader> DecodeHeader(std::string_view bytes);
std::optional<TraceRequest> DecodeRequest(const TraceHeader& header,
                                          std::string_view bytes);

}  // namespace winnow

#endif  // WINNOW_SIMULATE_TRACE_BYTES_H_
