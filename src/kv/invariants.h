// What always holds between the pool and the tables, as checks on plain data.
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
  std::vector<KvBlockId> pages;           // kNoKvBlock: not whole
  std::vector<KvBlockId> far_pages = {};  // of the host; kNoKvBlock: whole

  friend bool operator==(const TableSnapshot&, const TableSnapshot&) = default;
};

// A KV block that the prefix index holds too, and how many sequences it knows
// of.
struct IndexedSnapshot {
  KvBlockId kv_block;
  uint32_t num_users = 0;

  friend bool operator==(const IndexedSnapshot&,
                         const IndexedSnapshot&) = default;
};

// A tier's KV blocks.
struct PoolSnapshot {
  int64_t num_free = 0;                   // as the pool counts
  int64_t num_in_use = 0;                 // as the pool counts
  std::vector<uint32_t> references = {};  // [num_kv_blocks]
  std::vector<bool> is_free = {};         // [num_kv_blocks]

  friend bool operator==(const PoolSnapshot&, const PoolSnapshot&) = default;
};

// What a sequence without tokens has been lent.
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

// Names whatever is broken, a line each; empty where all holds:
//  * on each tier free + in use = total, and both are what the KV blocks
//    themselves say;
//  * a KV block has as many references as tables that hold it, and one more
//    where the prefix index does, which knows how many tables; one that is
//    lent has one, and a free one none;
//  * one on the host likewise, but that the index knows no tables;
//  * who has a loan has a table without tokens;
//  * no table holds a KV block twice, or one that does not exist;
//  * a table has the pages that its tokens need, and sealed <= owned;
//  * a page is on the device or held on the host, and on the device where its
//    tokens are not all sealed;
//  * a page with tokens that are not sealed yet has one owner: a step may
//    still be writing it.
std::vector<std::string> BrokenInvariants(const KvSnapshot& snapshot);

}  // namespace winnow

#endif  // WINNOW_KV_INVARIANTS_H_
