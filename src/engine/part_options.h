// The options of an engine's parts, from the engine's own.
#ifndef WINNOW_ENGINE_PART_OPTIONS_H_
#define WINNOW_ENGINE_PART_OPTIONS_H_

#include "engine/engine_options.h"
#include "engine/residency/residency.h"
#include "engine/run/runner.h"

namespace winnow {

// REQUIRES of all: the options are resolved (ResolveOptions).
RunnerOptions RunnerOptionsOf(const EngineOptions& options);

// With as many pages as the device and the host have room for. Fails as
// KvPagesOf and HostPagesOf.
Result<KvTierOptions> TierOptionsOf(const EngineOptions& options,
                                    const Backend& backend, const Model& model);

ResidencyOptions ResidencyOptionsOf(const EngineOptions& options);

// REQUIRES: model outlives what has these options.
DiskPrefixesOptions DiskOptionsOf(const EngineOptions& options,
                                  const Backend& backend, const Model& model);

}  // namespace winnow

#endif  // WINNOW_ENGINE_PART_OPTIONS_H_
