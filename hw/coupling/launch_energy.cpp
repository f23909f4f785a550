#include "hw/coupling/launch_energy.hpp"

#include <algorithm>
#include <stdexcept>

namespace orrery::hw {
sim::EnergyLedger launch_energy(const std::string& device, double idle_w, const CostModel& cost,
                                std::span<const LaunchedKernel> launched, std::span<const CommandTiming> timings,
                                sim::TickScale scale, sim::Duration bin) {
  if (launched.size() != timings.size()) throw std::invalid_argument("one timing a kernel is needed for its energy");
  sim::EnergyLedger ledger = bin.ticks > 0 ? sim::EnergyLedger(sim::Time{}, bin) : sim::EnergyLedger();
  if (timings.empty()) return ledger;
  const auto idle = ledger.account(device, "idle");
  const auto compute = ledger.account(device, "compute"), memory = ledger.account(device, "memory");
  sim::Time end;
  for (std::size_t i = 0; i < launched.size(); ++i) {
    const Cost price = cost.cost(launched[i].kernel);
    ledger.draw(compute, sim::picojoules(price.compute_energy_j), timings[i].begin, timings[i].end);
    ledger.draw(memory, sim::picojoules(price.memory_energy_j), timings[i].begin, timings[i].end);
    end = std::max(end, timings[i].end);
  }
  const sim::Time begin = timings.front().host_begin;
  ledger.draw(idle, sim::energy_of(idle_w, end - begin, scale), begin, end);
  return ledger;
}

}  // namespace orrery::hw
