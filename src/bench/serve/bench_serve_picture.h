// winnow bench serve --svg: a run as a picture.
#ifndef WINNOW_BENCH_SERVE_BENCH_SERVE_PICTURE_H_
#define WINNOW_BENCH_SERVE_BENCH_SERVE_PICTURE_H_

#include <string>

#include "load/load_figures.h"

namespace winnow {

// SVG with the share of measurements below each latency, and over the run's
// time generated tokens a second and requests in flight. `title` may contain
// any characters.
std::string ServePicture(const std::string& title, const LoadResult& result,
                         const LoadFigures& figures);

}  // namespace winnow

#endif  // WINNOW_BENCH_SERVE_BENCH_SERVE_PICTURE_H_
