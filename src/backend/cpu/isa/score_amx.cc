// Scores by AMX: what Select makes use of.
#include "backend/cpu/isa/amx_tiles.h"
#include "backend/cpu/isa/vector_kernels.h"
#include "backend/cpu/select/scores_by_tile.h"

namespace winnow {

void ScoreTileAmx(const TileKeys& keys, int /*begin*/, int /*end*/,
                  const UnitRows& rows) {
  const TileConfig config = UnitTiles(rows.num_rows);
  FinishStores();
  _tile_loadconfig(&config);
  MultiplyKeyTiles(keys, rows);
  _tile_release();
  FinishStores();
}

}  // namespace winnow
