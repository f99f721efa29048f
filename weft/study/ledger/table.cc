#include "weft/study/ledger/table.h"

#include <algorithm>
#include <thread>

#include "weft/world/world.h"

namespace weft {

const LedgerRow* LedgerTable::find(std::string_view name) const {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const LedgerRow& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

LedgerRow* LedgerTable::find(std::string_view name) {
  return const_cast<LedgerRow*>(static_cast<const LedgerTable*>(this)->find(name));
}

double LedgerTable::measured_us(std::string_view name) const {
  const LedgerRow* row = find(name);
  return row == nullptr ? 0 : row->measured_us.value_or(0);
}

double LedgerTable::exposed_us(std::string_view name) const {
  const LedgerRow* row = find(name);
  return row == nullptr ? 0 : row->exposed_us.value_or(0);
}

LedgerTable table_of(World& world, const AskedLink& link, int rounds) {
  LedgerTable out;
  out.ranks = world.size();
  out.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  out.rounds = rounds;
  out.transport = world.transport();
  out.link = link;
  out.cluster = world.cluster(world.size());
  return out;
}

void set_exposed(LedgerTable* table) {
  const double floor = table->measured_us(kFloor);
  for (LedgerRow& row : table->rows)
    if (row.measured_us) row.exposed_us = *row.measured_us - floor;
}

}  // namespace weft
