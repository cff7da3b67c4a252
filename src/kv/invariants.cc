#include "kv/invariants.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kv/kv_block_pool.h"

namespace winnow {
namespace {

using Messages = std::vector<std::string>;

// `tier` stands before "KV block" in messages.
void CheckCounts(std::string_view tier, const PoolSnapshot& pool,
                 Messages& broken) {
  const auto num_kv_blocks = static_cast<int64_t>(pool.references.size());
  const auto num_free = static_cast<int64_t>(
      std::count(pool.is_free.begin(), pool.is_free.end(), true));
  if (pool.is_free.size() != pool.references.size()) {
    broken.push_back(fmt::format("{} free marks for {} {}KV blocks",
                                 pool.is_free.size(), num_kv_blocks, tier));
  }
  if (pool.num_free + pool.num_in_use != num_kv_blocks) {
    broken.push_back(fmt::format("{}free {} + in use {} != total {}", tier,
                                 pool.num_free, pool.num_in_use,
                                 num_kv_blocks));
  }
  if (pool.num_free != num_free) {
    broken.push_back(
        fmt::format("the pool counts {} free {}KV blocks, marks {}",
                    pool.num_free, tier, num_free));
  }
}

void CheckReferences(std::string_view tier, const PoolSnapshot& pool,
                     const std::vector<uint32_t>& holders, Messages& broken) {
  for (size_t i = 0; i < holders.size(); ++i) {
    if (pool.references[i] != holders[i]) {
      broken.push_back(
          fmt::format("{}KV block {} has {} references, {} holders", tier, i,
                      pool.references[i], holders[i]));
    }
    if (i < pool.is_free.size() &&
        pool.is_free[i] != (pool.references[i] == 0)) {
      broken.push_back(fmt::format("{}KV block {} is {} with {} references",
                                   tier, i, pool.is_free[i] ? "free" : "in use",
                                   pool.references[i]));
    }
  }
}

void CheckTable(const TableSnapshot& table, const KvSnapshot& snapshot,
                Messages& broken) {
  const size_t num_kv_blocks = snapshot.device.references.size();
  const uint64_t sequence = table.sequence.value();
  if (static_cast<int64_t>(table.pages.size()) !=
      PagesFor(table.num_tokens, snapshot.page_tokens)) {
    broken.push_back(fmt::format("sequence {} has {} pages for {} tokens",
                                 sequence, table.pages.size(),
                                 table.num_tokens));
  }
  if (table.num_sealed < 0 || table.num_sealed > table.num_tokens) {
    broken.push_back(fmt::format("sequence {} has {} tokens sealed, {} owned",
                                 sequence, table.num_sealed, table.num_tokens));
  }
  std::vector<KvBlockId> sorted = table.pages;
  std::erase(sorted, kNoKvBlock);
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    broken.push_back(fmt::format("sequence {} holds KV block {} twice",
                                 sequence, twice->value()));
  }
  if (!sorted.empty() && sorted.back().value() >= num_kv_blocks) {
    broken.push_back(fmt::format("sequence {} holds KV block {} of {}",
                                 sequence, sorted.back().value(),
                                 num_kv_blocks));
  }
}

void CheckFarPages(const TableSnapshot& table, const KvSnapshot& snapshot,
                   Messages& broken) {
  for (size_t page = 0; page < table.pages.size(); ++page) {
    const KvBlockId far =
        page < table.far_pages.size() ? table.far_pages[page] : kNoKvBlock;
    const bool is_whole = table.pages[page] != kNoKvBlock;
    const auto end = (static_cast<int64_t>(page) + 1) * snapshot.page_tokens;
    if (is_whole != (far == kNoKvBlock) ||
        (!is_whole && (end > table.num_sealed ||
                       far.value() >= snapshot.host.references.size()))) {
      broken.push_back(
          fmt::format("page {} of sequence {} has KV block {} and {} of the "
                      "host, {} tokens "
                      "are sealed",
                      page, table.sequence.value(), table.pages[page].value(),
                      far.value(), table.num_sealed));
    }
  }
}

void CheckHolders(const KvSnapshot& snapshot, Messages& broken) {
  std::vector<uint32_t> holders(snapshot.device.references.size());
  for (const TableSnapshot& table : snapshot.tables) {
    for (KvBlockId kv_block : table.pages) {
      if (kv_block.value() < holders.size()) ++holders[kv_block.value()];
    }
  }
  for (const auto& [kv_block, num_users] : snapshot.indexed) {
    if (kv_block.value() >= holders.size()) continue;
    uint32_t& num_holders = holders[kv_block.value()];
    if (num_holders != num_users) {
      broken.push_back(fmt::format("KV block {} has {} users, {} tables",
                                   kv_block.value(), num_users, num_holders));
    }
    ++num_holders;
  }
  const auto hold_near = [&holders](KvBlockId kv_block) {
    if (kv_block.value() < holders.size()) ++holders[kv_block.value()];
  };
  std::ranges::for_each(snapshot.lent, hold_near);
  for (const LoanSnapshot& loan : snapshot.loans) {
    std::ranges::for_each(loan.kv_blocks, hold_near);
  }
  CheckReferences("", snapshot.device, holders, broken);
  std::vector<uint32_t> host_holders(snapshot.host.references.size());
  const auto hold = [&host_holders](KvBlockId kv_block) {
    if (kv_block.value() < host_holders.size())
      ++host_holders[kv_block.value()];
  };
  std::ranges::for_each(snapshot.indexed_on_host, hold);
  for (const TableSnapshot& table : snapshot.tables) {
    std::ranges::for_each(table.far_pages, hold);
  }
  for (const LoanSnapshot& loan : snapshot.loans) {
    std::ranges::for_each(loan.hosts, hold);
  }
  CheckReferences("host ", snapshot.host, host_holders, broken);
}

void CheckLoans(const KvSnapshot& snapshot, Messages& broken) {
  for (const LoanSnapshot& loan : snapshot.loans) {
    const auto table = std::ranges::find(snapshot.tables, loan.sequence,
                                         &TableSnapshot::sequence);
    if (table == snapshot.tables.end() || table->num_tokens > 0) {
      broken.push_back(
          fmt::format("sequence {} has a loan of {} KV blocks, and {} tokens",
                      loan.sequence.value(), loan.kv_blocks.size(),
                      table == snapshot.tables.end() ? -1 : table->num_tokens));
    }
  }
}

void CheckOpenPages(const KvSnapshot& snapshot, const TableSnapshot& table,
                    Messages& broken) {
  if (table.num_sealed < 0) return;
  const auto first =
      static_cast<size_t>(table.num_sealed / snapshot.page_tokens);
  for (size_t page = first; page < table.pages.size(); ++page) {
    const uint32_t kv_block = table.pages[page].value();
    const bool open = table.num_sealed < table.num_tokens;
    if (!open || kv_block >= snapshot.device.references.size()) continue;
    const uint32_t num_owners = snapshot.device.references[kv_block];
    if (num_owners > 1) {
      broken.push_back(fmt::format(
          "sequence {} may be writing page {}, whose KV block {} has {} owners",
          table.sequence.value(), page, kv_block, num_owners));
    }
  }
}

}  // namespace

std::vector<std::string> BrokenInvariants(const KvSnapshot& snapshot) {
  Messages broken;
  CheckCounts("", snapshot.device, broken);
  CheckCounts("host ", snapshot.host, broken);
  for (const TableSnapshot& table : snapshot.tables) {
    CheckTable(table, snapshot, broken);
    CheckFarPages(table, snapshot, broken);
    CheckOpenPages(snapshot, table, broken);
  }
  CheckLoans(snapshot, broken);
  CheckHolders(snapshot, broken);
  return broken;
}

}  // namespace winnow
