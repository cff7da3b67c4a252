// RequestIntake: which requests an engine takes in, and as which sequences.
#ifndef WINNOW_ENGINE_REQUEST_INTAKE_H_
#define WINNOW_ENGINE_REQUEST_INTAKE_H_

#include "engine/engine_options.h"
#include "engine/request/sequence_list.h"
#include "engine/request_limits.h"
#include "engine/residency/residency.h"

namespace winnow {

// Checks requests and prefixes, and puts them into the list of sequences. Used
// by the engine's thread alone.
class RequestIntake {
 public:
  // The parts that checks ask. REQUIRES: they outlive the intake.
  struct Links {
    const Model& model;
    const EngineOptions& options;
    const Residency& residency;
    SequenceList& sequences;
  };
  explicit RequestIntake(const Links& links);

  // These three as Engine has them.
  Status Check(const Request& request) const;
  Result<SequenceId> Add(Request request, RequestObserver* observer);
  Result<SequenceId> AddPrefix(Prefix prefix, RequestObserver* observer);

 private:
  // That no more requests are watched than may be, and none that is layerwise.
  Status CheckWatch(const Request& request, bool is_layerwise) const;
  // That both pools hold what the request needs.
  Status CheckFits(const Request& request) const;
  // Leaves of a max_tokens that the user did not ask for as much as CheckFits
  // takes.
  void FitMaxTokens(Request& request) const;
  bool ActsInPrompt(int selector) const;
  // The REQUIRES of Add that concern a fork and its prefix.
  void CheckForkable(const Request& request, const Sequence& prefix) const;
  RequestRope RopeFor(int64_t planned_tokens) const;

  const Links links_;
  const RequestLimits limits_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_REQUEST_INTAKE_H_
