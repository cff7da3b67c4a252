// What a recorded step is known by: Backend::Replay's key.
#ifndef WINNOW_ENGINE_RUN_REPLAY_KEY_H_
#define WINNOW_ENGINE_RUN_REPLAY_KEY_H_

#include "engine/request/key_bytes.h"
#include "model/forward/transformer.h"

namespace winnow {

// All that Forward sees of its arguments on the host, as bytes: counts,
// addresses and shapes. Programs are known by their addresses, and a layer's
// cache by its table's: REQUIRES that they stay as they are while keys are
// compared.
KeyBytes ReplayKey(const ForwardArgs& args);

}  // namespace winnow

#endif  // WINNOW_ENGINE_RUN_REPLAY_KEY_H_
