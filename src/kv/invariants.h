// Invariants between the pool and the page tables, as checks on plain data.
#ifndef WINNOW_KV_INVARIANTS_H_
#define WINNOW_KV_INVARIANTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace winnow {

struct TableSnapshot {
  SequenceId sequence;
  int num_tokens = 0;
  int num_sealed = 0;
  std::vector<KvBlockId> pages;           // kNoKvBlock: offloaded
  std::vector<KvBlockId> far_pages = {};  // on the host; kNoKvBlock: resident

  friend bool operator==(const TableSnapshot&, const TableSnapshot&) = default;
};

// A KV block that the prefix index holds too, and the number of its users
// there.
struct IndexedSnapshot {
  KvBlockId kv_block;
  uint32_t num_users = 0;

  friend bool operator==(const IndexedSnapshot&,
                         const IndexedSnapshot&) = default;
};

// The KV blocks of one tier.
struct PoolSnapshot {
  int64_t num_free = 0;                   // as the pool counts
  int64_t num_in_use = 0;                 // as the pool counts
  std::vector<uint32_t> references = {};  // [num_kv_blocks]
  std::vector<bool> is_free = {};         // [num_kv_blocks]

  friend bool operator==(const PoolSnapshot&, const PoolSnapshot&) = default;
};

// The loan of a sequence without tokens.
struct LoanSnapshot {
  SequenceId sequence;
  std::vector<KvBlockId> kv_blocks, hosts;

  friend bool operator==(const LoanSnapshot&, const LoanSnapshot&) = default;
};

// The state of a KvCache at one moment. Equal snapshots behave alike.
struct KvSnapshot {
  int page_tokens = kPageTokens;
  PoolSnapshot device;
  PoolSnapshot host = {};
  std::vector<TableSnapshot> tables;  // by sequence, ascending
  std::vector<IndexedSnapshot> indexed = {};
  std::vector<KvBlockId> indexed_on_host = {};
  std::vector<KvBlockId> lent = {};
  std::vector<LoanSnapshot> loans = {};

  friend bool operator==(const KvSnapshot&, const KvSnapshot&) = default;
};

// Returns one line for each broken invariant; empty if all hold:
// - On each tier, free + in use = total, and both equal the sums over KV
//   blocks.
// - A KV block has one reference for each table that holds it. It has one more
//   if the prefix index holds it; the index then knows the number of tables.
// - A lent KV block has one reference, a free one none.
// - On the host the same holds, except that the index does not count tables.
// - A sequence with a loan has a table without tokens.
// - No table holds a KV block twice, or one that does not exist.
// - A table has the pages that its tokens need, and sealed <= owned.
// - A page is resident or held on the host. A page with unsealed tokens is
//   resident.
// - A page with unsealed tokens has one owner, because a step may be writing
//   it.
std::vector<std::string> BrokenInvariants(const KvSnapshot& snapshot);

}  // namespace winnow

#endif  // WINNOW_KV_INVARIANTS_H_
