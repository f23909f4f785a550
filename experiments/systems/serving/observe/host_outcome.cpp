#include "experiments/systems/serving/observe/host_outcome.hpp"

#include <string>
#include <vector>

#include "experiments/base/figures.hpp"

namespace orrery::experiments {

void HostRegime::book(const HostShare& share, std::int64_t from, std::int64_t count) {
  // The sum of from + i over i < count.
  const __int128 steps = static_cast<__int128>(count) * from + static_cast<__int128>(count) * (count - 1) / 2;
  const __int128 times = count;
  iterations += count;
  if (share.beside_ps > share.device_ps) host_paced += count;
  calls += share.calls * count;
  exposed_ps += share.exposed_ps * times;
  beside_ps += share.beside_ps * times;
  device_ps += share.device_ps * times + share.device_step_ps * steps;
  queued2_ps += share.queued2_ps * times + share.queued2_step_ps * steps;
}

void HostRegime::add(const HostRegime& other) {
  iterations += other.iterations;
  host_paced += other.host_paced;
  calls += other.calls;
  exposed_ps += other.exposed_ps;
  beside_ps += other.beside_ps;
  device_ps += other.device_ps;
  queued2_ps += other.queued2_ps;
}

namespace {

const FigureTable<HostRegime>& regime_table() {
  using Regime = HostRegime;
  static const FigureTable<Regime> table{
      {"bound", "", "Which was busy for longer: `host` (work that overlaps with the devices) or `device`.",
       [](const Regime& regime) {
         return std::string(sim::to_string(regime.beside_ps > regime.device_ps ? Pace::host : Pace::device));
       }},
      {"{iterations,launches}", "count",
       "Iterations with prompt tokens (`prompt`) or of decodes alone (`decode`); calls that launch their kernels, one "
       "per captured graph.",
       &Regime::iterations, &Regime::calls},
      {"host_paced", "ratio",
       "Share of these iterations in which the host was busier than the devices, which then wait for it.",
       [](const Regime& regime) {
         return ratio(static_cast<double>(regime.host_paced), static_cast<double>(regime.iterations));
       }},
      {"{device_s,host_s,exposed_s}", "s",
       "Time of these iterations on the devices; on the host, overlapping with the devices; on the host while the "
       "devices wait.",
       [](const Regime& regime) { return seconds_of(regime.device_ps); },
       [](const Regime& regime) { return seconds_of(regime.beside_ps); },
       [](const Regime& regime) { return seconds_of(regime.exposed_ps); }},
      {"tklqt_s", "s", "Total kernel launch and queuing time: from a launch call to its kernel, summed over calls.",
       [](const Regime& regime) { return seconds_of(regime.queued2_ps) / 2; }}};
  return table;
}

/// A regime that did not occur is left out.
FigureValue written(const HostRegime& regime) {
  return regime.iterations > 0 ? FigureValue(regime_table().written(regime)) : std::nullopt;
}

const FigureTable<HostOutcome>& host_table() {
  static const FigureTable<HostOutcome> table{
      {"prompt", regime_table().infos(), [](const HostOutcome& host) { return written(host.prompt); }},
      {"decode", regime_table().infos(), [](const HostOutcome& host) { return written(host.decode); }}};
  return table;
}

}  // namespace

sim::Node summarise(const HostOutcome& outcome) {
  return host_table().written(outcome);
}

std::vector<FigureInfo> host_figures() {
  return host_table().infos();
}

}  // namespace orrery::experiments
