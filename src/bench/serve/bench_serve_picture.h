// winnow bench serve --svg: a run as a picture.
#ifndef WINNOW_BENCH_SERVE_BENCH_SERVE_PICTURE_H_
#define WINNOW_BENCH_SERVE_BENCH_SERVE_PICTURE_H_

#include <string>

#include "load/load_figures.h"

namespace winnow {

// SVG: the share of measurements below each latency; generated tokens a
// second, and requests under way, over the run's time. `title` may have any
// characters.
std::string ServePicture(const std::string& title, const LoadResult& result,
                         const LoadFigures& figures);

}  // namespace winnow

#endif  // WINNOW_BENCH_SERVE_BENCH_SERVE_PICTURE_H_
