#include "engine/testing/tier_run.h"

#include <gtest/gtest.h>

#include "engine/testing/engine_invariants.h"

namespace winnow {
namespace {

std::unique_ptr<Engine> MakeEngine(Backend& backend, const TierModels& models,
                                   const TierWorkload& workload,
                                   const EngineOptions& options,
                                   std::unique_ptr<DiskStore> disk = {}) {
  Result<std::unique_ptr<Engine>> engine = Engine::Create(
      backend, models.Get(workload.is_deep), options, std::move(disk));
  CHECK(engine.ok(), "{}", engine.error().message);
  return std::move(engine).value();
}

std::vector<TierListener> ListenersOf(const TierWorkload& workload,
                                      const AheadCounter* ahead) {
  std::vector<TierListener> listeners;
  for (const TierRequest& asked : workload.requests) {
    listeners.emplace_back(asked.stops_at, ahead);
  }
  return listeners;
}

}  // namespace

void TierListener::OnPrefill(int done, int) {
  EXPECT_GT(done, num_read_);
  num_read_ = done;
}

bool TierListener::OnToken(const GeneratedToken& token) {
  bits.emplace_back(token.token_id, token.logprob);
  for (const TokenLogprob& other : token.top) {
    bits.emplace_back(other.token_id, other.logprob);
  }
  return ++num_tokens != stops_at_;
}

void TierListener::OnFinish(const Completion& given) {
  EXPECT_FALSE(finished);
  finished = true;
  completion = given;
  was_ahead = given.reason == FinishReason::kStop && ahead_ != nullptr &&
              ahead_->is_ahead();
}

std::vector<TierListener> RunResident(Backend& backend,
                                      const TierModels& models,
                                      const TierWorkload& workload) {
  const EngineOptions options = {
      .max_model_len = workload.options.max_model_len,
      .max_num_seqs = 16,
      .device_kv_bytes = 130 * models.PageBytes(workload.is_deep),
      .batch_invariant = true,
      .prefix_caching = false,
      .selectors = workload.options.selectors};
  const std::unique_ptr<Engine> engine =
      MakeEngine(backend, models, workload, options);
  std::vector<TierListener> listeners = ListenersOf(workload, nullptr);
  for (size_t i = 0; i < listeners.size(); ++i) {
    const auto id = engine->Add(workload.requests[i].request, &listeners[i]);
    CHECK(id.ok(), "{}", id.error().message);
  }
  while (*engine->Step()) {
  }
  return listeners;
}

std::vector<TierListener> PressedRun::Run(const Life& life) {
  random_.seed(life.seed);
  std::unique_ptr<DiskStore> store;
  if (life.disk != nullptr) store = OpenDisk(life);
  engine_ = MakeEngine(backend_, models_, workload_, workload_.options,
                       std::move(store));
  if (workload_.expects_little) RunBriefOne();
  std::vector<TierListener> listeners = ListenersOf(workload_, ahead_);
  ids_.clear();
  layerwise_.clear();
  prefix_.reset();
  died_ = false;
  is_troubled_ = Below(2) == 0;
  TierListener holder(/*stops_at=*/0);
  if (workload_.prefix) {
    prefix_ = engine_->AddPrefix(*workload_.prefix, &holder).value();
  }
  RunToTheEnd(life, listeners);
  if (!died_) ExpectNothingIsHeld();
  if (engine_->slots() != nullptr) {
    totals_.num_moved_frames += engine_->slots()->num_moved_frames();
  }
  if (engine_->disk() != nullptr) CountDisk();
  engine_.reset();
  return listeners;
}

// A folder that may not be written is opened as it is, but by the first one,
// who makes it.
std::unique_ptr<DiskStore> PressedRun::OpenDisk(const Life& life) const {
  const bool is_read_only =
      workload_.trouble == DiskTrouble::kReadOnly && !life.is_first;
  life.disk->faults() =
      is_read_only ? FaultsOf(workload_.trouble) : FolderFaults();
  const int64_t page_bytes = models_.PageBytes(workload_.is_deep);
  const DiskSlotLayout layout(page_bytes);
  auto store = DiskStore::Open(
      life.disk->Open(),
      {.header = {.made_with = {{"model", "tiny"}}, .piece_bytes = page_bytes},
       .max_bytes = workload_.num_disk_slots * layout.slot_bytes,
       .has_own_thread = false});
  CHECK(store.ok(), "{}", store.error().message);
  return std::move(store).value();
}

void PressedRun::RunBriefOne() {
  Request request;
  request.prompt = {1};
  request.max_tokens = 1;
  TierListener listener(/*stops_at=*/0);
  CHECK(engine_->Add(std::move(request), &listener).ok());
  while (*engine_->Step()) {
  }
}

void PressedRun::RunToTheEnd(const Life& life,
                             std::vector<TierListener>& listeners) {
  while (!testing::Test::HasFailure()) {
    if (ids_.size() < listeners.size() && Below(workload_.mean_gap) == 0) {
      AskNext(listeners[ids_.size()]);
    }
    Interrupt();
    if (life.disk != nullptr && !TroubleDisk(life)) return;
    ExpectSound();
    const Result<bool> more = engine_->Step();
    CHECK(more.ok(), "{}", more.error().message);
    ExpectSound();
    CountLayerwise();
    if (!*more && ids_.size() == listeners.size()) return;
  }
}

void PressedRun::AskNext(TierListener& listener) {
  const TierRequest& asked = workload_.requests[ids_.size()];
  Request request = asked.request;
  if (asked.on_prefix) request.prefix = prefix_;
  const auto id = engine_->Add(std::move(request), &listener);
  CHECK(id.ok() || workload_.is_deep, "{}", id.error().message);
  // Nobody's number, where there is never room for it.
  ids_.push_back(id.ok() ? *id : SequenceId(uint64_t{1} << 40));
  listener.refused = !id.ok();
  totals_.num_refused += !id.ok();
  if (ids_.size() == workload_.requests.size() && prefix_) {
    engine_->Release(*prefix_);
  }
}

void PressedRun::Interrupt() {
  const bool any = !ids_.empty();
  if (any && workload_.forces && Below(8) == 0) PreemptAny();
  if (any && workload_.demotes && Below(4) == 0) engine_->Demote(AnyAsked());
  if (any && workload_.demotes && Below(4) == 0) PromoteAny();
  if (workload_.demotes) MoveAnyFrames();
  if (Below(6) == 0) engine_->ReclaimIdle(Below(6));
  if (any && Below(90) == 0) engine_->Cancel(AnyAsked());
}

void PressedRun::PreemptAny() {
  for (int i = 1 + Below(2); i > 0; --i) {
    const SequenceId id = AnyAsked();
    totals_.num_forced += engine_->kv().is_open(id);
    engine_->Preempt(id);
    // Who is layerwise stays.
    totals_.num_forced -= engine_->kv().is_open(id);
  }
}

// All or part of what one has given up comes back, and may leave at once.
void PressedRun::PromoteAny() {
  for (const SequenceId id : ids_) {
    if (!engine_->kv().is_open(id) || Below(2) == 0) continue;
    const int64_t num_far = engine_->kv().NumFar(id);
    if (num_far == 0) continue;
    engine_->Promote(id, 1 + Below(static_cast<int>(num_far)));
    const int64_t num_left = engine_->kv().NumFar(id);
    totals_.num_brought_back += num_left < num_far;
    totals_.num_whole_again += num_left == 0;
    if (Below(4) == 0) engine_->Demote(id);
  }
}

void PressedRun::MoveAnyFrames() {
  const int num_layers = engine_->slots()->ledger().options().num_layers;
  for (const SequenceId id : ids_) {
    engine_->MoveFrame(id, Below(num_layers), Below(num_layers));
  }
}

bool PressedRun::TroubleDisk(const Life& life) {
  const DiskTrouble trouble = workload_.trouble;
  if (ComesAndGoes(trouble) && Below(6) == 0) is_troubled_ = !is_troubled_;
  const bool is_there = !ComesAndGoes(trouble) || is_troubled_;
  life.disk->faults() = is_there ? FaultsOf(trouble) : FolderFaults();
  if (trouble == DiskTrouble::kFlippedBits && Below(3) == 0) {
    life.disk->FlipBit();
  }
  if (!EndsProcesses(trouble) || !life.may_die || Below(60) > 0) return true;
  life.disk->KillProcess();
  died_ = true;
  ++totals_.num_dead;
  return false;
}

void PressedRun::CountLayerwise() {
  for (const SequenceId id : ids_) {
    if (!engine_->kv().is_open(id) || !engine_->kv().has_loan(id)) continue;
    totals_.num_layerwise += layerwise_.insert(id).second;
    totals_.num_layerwise_with_others += engine_->kv().num_sequences() > 1;
  }
}

void PressedRun::CountDisk() {
  const DiskCounts& counts = engine_->disk()->store().counts();
  totals_.num_from_disk += counts.num_read;
  totals_.num_failed_reads += counts.num_failed_reads;
  totals_.num_failed_writes += counts.num_failed_writes;
}

void PressedRun::ExpectSound() const {
  ASSERT_EQ(BrokenInvariants(*engine_), std::vector<std::string>());
  if (engine_->slots() == nullptr) return;
  const SlotSnapshot slots = engine_->slots()->ledger().Snapshot();
  for (const SlotOwnerSnapshot& owner : slots.owners) {
    ASSERT_GE(engine_->slots()->NumSaved(owner.sequence), 0);
  }
}

void PressedRun::ExpectNothingIsHeld() const {
  const KvCache& cache = engine_->kv();
  EXPECT_EQ(cache.num_sequences(), 0);
  EXPECT_EQ(cache.num_free_pages(), cache.num_pages());
  // What is idle and what lies on the host alone is all that there is.
  const KvSnapshot kv = cache.Snapshot();
  EXPECT_EQ(std::ssize(kv.indexed), kv.device.num_in_use);
  EXPECT_EQ(std::ssize(kv.indexed_on_host), kv.host.num_in_use);
  if (engine_->slots() == nullptr) return;
  const SlotSnapshot slots = engine_->slots()->ledger().Snapshot();
  EXPECT_EQ(std::ssize(slots.split), 0);
  EXPECT_EQ(slots.num_free_segments, slots.num_segments);
  EXPECT_EQ(slots.num_free_chunks, slots.num_chunks);
}

}  // namespace winnow
