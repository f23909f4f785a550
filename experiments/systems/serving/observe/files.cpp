#include "experiments/systems/serving/observe/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include "experiments/base/run_folder.hpp"
#include "sim/energy_ledger.hpp"

namespace orrery::experiments {
namespace {

constexpr std::size_t kMaxRowBytes = 1U << 22;  // of series.csv that one replica keeps in memory

void append_optional(std::string& out, const std::optional<sim::Time>& time, const sim::TickScale& scale) {
  if (time) append_seconds(out, *time, scale);
  out += ',';
}

}  // namespace

ServingFiles::ServingFiles(const std::filesystem::path& folder, const FileFacts& facts)
    : facts_(facts), folder_(folder), requests_(folder / "requests.csv"), series_(folder / "series.csv") {
  requests_.buffer() =
      "id,arrived_s,admitted_s,first_token_s,finished_s,prompt_tokens,output_tokens,cached_tokens,preemptions,replica,"
      "status\n";
  series_.buffer() = "time_s,replica,running,waiting,kv_used_bytes,batch_tokens,power_w\n";
  for (const StreamFacts& stream : facts_.streams) streams_.push_back({.facts = stream, .watts = stream.watts(1)});
  if (facts_.timeline)
    timeline_ =
        std::make_unique<ServingTimeline>(folder / "timeline.pftrace", *facts_.timeline, facts_.scale, facts_.streams);
}

ServingFiles::~ServingFiles() = default;

void ServingFiles::request_ended(const RequestRecord& record) {
  std::string& out = requests_.buffer();
  append(out, "{},", record.id);
  append_seconds(out, record.arrived, facts_.scale);
  out += ',';
  append_optional(out, record.admitted, facts_.scale);
  append_optional(out, record.first_token, facts_.scale);
  append_optional(out, record.finished, facts_.scale);
  append(out, "{},{},{},{},{},{}\n", record.prompt_tokens, record.output_tokens, record.cached_tokens,
         record.preemptions, record.replica, record.status);
  requests_.line_done();
  if (timeline_) timeline_->request_ended(record);
}

void ServingFiles::iterations_ended(const IterationRun& run) {
  Stream& stream = streams_[static_cast<std::size_t>(run.stream)];
  advance_series(stream, run);
  if (timeline_) timeline_->iterations_ended(run, stream.watts);
}

void ServingFiles::power_changed(std::int32_t replica, sim::Time at, double share) {
  for (Stream& stream : streams_) {
    if (stream.facts.replica != replica) continue;
    idle_until(stream, at);
    const double watts = stream.facts.watts(share);
    // The row to come counts its whole interval at the new power.
    const double before_j = (stream.watts - watts) * facts_.scale.seconds(at - stream.last_row);
    stream.interval_energy_pj += static_cast<__int128>(before_j * 1e12);
    stream.watts = watts;
  }
}

void ServingFiles::series_row(Stream& stream, sim::Time at, const IterationRecord& state, std::int64_t batch_tokens) {
  series_row(stream, at, state, batch_tokens, facts_.series_interval);
}

void ServingFiles::series_row(Stream& stream, sim::Time at, const IterationRecord& state, std::int64_t batch_tokens,
                              sim::Duration interval) {
  const bool first = &stream == &streams_.front();
  std::string& out = first ? series_.buffer() : stream.rows;
  append_seconds(out, at, facts_.scale);
  const double interval_j = static_cast<double>(stream.interval_energy_pj) * 1e-12;
  append(out, ",{},{},{},{},{},{:.9g}\n", stream.facts.replica, state.running, state.waiting, state.kv_used_bytes,
         batch_tokens, stream.watts + interval_j / facts_.scale.seconds(interval));
  if (first) {
    series_.line_done();
  } else if (stream.rows.size() > kMaxRowBytes) {
    spill(stream);
  }
  stream.interval_energy_pj = 0;
  stream.last_row = at;
}

/// Rows stand by replica in the file, so those of all but the first wait for its end.
void ServingFiles::spill(Stream& stream) {
  if (stream.spill.empty()) stream.spill = folder_ / fmt::format("series.{}.part", &stream - streams_.data());
  std::ofstream(stream.spill, std::ios::binary | std::ios::app) << stream.rows;
  stream.rows.clear();
}

/// To a later grid point, or to the end of time where there is none.
void ServingFiles::advance_row(Stream& stream, std::int64_t steps) {
  const __int128 next = stream.next_row.ticks + static_cast<__int128>(steps) * facts_.series_interval.ticks;
  stream.next_row = next < sim::kNever.ticks ? sim::Time{static_cast<std::int64_t>(next)} : sim::kNever;
}

/// Rows of an idle stretch: its first and its last grid point say it all.
void ServingFiles::idle_until(Stream& stream, sim::Time time) {
  if (stream.next_row >= time) return;
  series_row(stream, stream.next_row, IterationRecord{}, 0);
  const std::int64_t step = facts_.series_interval.ticks;
  const std::int64_t further = (time.ticks - 1 - stream.next_row.ticks) / step;
  if (further > 0) {
    advance_row(stream, further);
    series_row(stream, stream.next_row, IterationRecord{}, 0);
  }
  advance_row(stream, 1);
}

/// The iteration of a run under way at `at` (its start <= at < its end), which is not before the run's start.
std::int64_t ServingFiles::iteration_at(const IterationRun& run, sim::Time at) const {
  std::int64_t low = 0;
  std::int64_t high = run.count - 1;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (iteration(run, middle, facts_.scale.ps_per_tick()).end > at) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// A row shows the iteration under way at its instant. Energy of whole iterations is summed in closed form.
void ServingFiles::advance_series(Stream& stream, const IterationRun& run) {
  idle_until(stream, run.start);
  const std::int64_t ps_per_tick = facts_.scale.ps_per_tick();
  const auto energy_of = [&](std::int64_t iterations) {
    return static_cast<__int128>(run.energy_pj) * iterations +
           static_cast<__int128>(run.step_energy_pj) * iterations * (iterations - 1) / 2;
  };
  // What is left of an iteration's energy from `from` on; one shorter than a tick has it all at once.
  const auto rest_of = [](const IterationRecord& begun, sim::Time from) {
    if (begun.start == begun.end) return begun.energy_pj;
    return sim::energy_share(begun.energy_pj, begun.start, begun.end, from, begun.end);
  };
  const sim::Time end = iteration(run, run.count - 1, ps_per_tick).end;
  std::int64_t whole = 0;      // iterations whose energy is in
  sim::Time from = run.start;  // of the one after them, what is in already
  while (stream.next_row < end) {
    const std::int64_t k = iteration_at(run, stream.next_row);
    const IterationRecord record = iteration(run, k, ps_per_tick);
    if (k > whole) {
      const IterationRecord begun = iteration(run, whole, ps_per_tick);
      stream.interval_energy_pj += rest_of(begun, from);
      stream.interval_energy_pj += energy_of(k) - energy_of(whole + 1);
      whole = k;
      from = record.start;
    }
    stream.interval_energy_pj += sim::energy_share(record.energy_pj, record.start, record.end, from, stream.next_row);
    series_row(stream, stream.next_row, record, record.prefill_tokens + record.decodes);
    from = stream.next_row;
    advance_row(stream, 1);
  }
  const IterationRecord begun = iteration(run, whole, ps_per_tick);
  stream.interval_energy_pj += rest_of(begun, from);
  stream.interval_energy_pj += energy_of(run.count) - energy_of(whole + 1);
}

void ServingFiles::finish(sim::Time end) {
  for (Stream& stream : streams_) {
    idle_until(stream, end);
    if (end > stream.last_row)  // the last, partial interval
      series_row(stream, end, IterationRecord{}, 0, end - stream.last_row);
    if (!stream.spill.empty()) {
      series_.append(stream.spill);
      std::filesystem::remove(stream.spill);
    }
    series_.buffer() += stream.rows;
    series_.line_done();
  }
  requests_.close();
  series_.close();
  if (timeline_) timeline_->finish(end);
}

std::vector<std::string> ServingFiles::notes(std::int64_t iterations) const {
  return timeline_ ? timeline_->notes(iterations) : std::vector<std::string>{};
}

/// How many of a replica's iterations a device's share of the time is one of: stages and lanes have their own. Where
/// layouts have unlike stages, the time of all classes over that of the devices.
static double shares_at_once(const ReplicaResult& replica, const GroupFacts& kind) {
  if (kind.layouts == 1 || replica.busy_ps == 0) return static_cast<double>(kind.stages > 1 ? kind.stages : kind.lanes);
  __int128 all = 0;
  for (const __int128 ps : replica.cost.class_ps) all += ps;
  return static_cast<double>(all) / static_cast<double>(replica.busy_ps);
}

void write_energy(const std::filesystem::path& path, const std::vector<ReplicaResult>& replicas,
                  const MachineFacts& machine, double simulated_s) {
  std::string text = "device,class,energy_j,busy_s\n";
  std::map<std::string, std::int64_t> numbers;  // devices of a part so far, over groups
  for (std::size_t g = 0; g < machine.devices.size(); ++g) {
    const DeviceFacts& group = machine.devices[g];
    std::int64_t device = 0;
    std::int64_t& number = numbers[group.part];
    const auto idle = [&](__int128 off_ps, double off_power) {
      // What was off all the time may come out a rounding below none.
      const double seconds = std::max(0.0, simulated_s - static_cast<double>(off_ps) * 1e-12 * (1 - off_power));
      append(text, "{}[{}],idle,{:.9g},{:.9g}\n", group.part, number++, group.idle_watts * seconds, 0.0);
      ++device;
    };
    for (const ReplicaResult& replica : replicas) {
      const GroupFacts& kind = machine.groups[static_cast<std::size_t>(replica.group)];
      if (static_cast<std::size_t>(kind.device_group) != g) continue;
      const double at_once = shares_at_once(replica, kind);
      for (std::int64_t d = 0; d < kind.devices; ++d) {
        for (std::size_t c = 0; c < replica.cost.class_ps.size(); ++c) {
          if (replica.cost.class_ps[c] == 0) continue;
          append(text, "{}[{}],{},{:.9g},{:.9g}\n", group.part, number, hw::to_string(static_cast<hw::OpClass>(c)),
                 static_cast<double>(replica.cost.class_pj[c]) * 1e-12 / static_cast<double>(kind.devices),
                 static_cast<double>(replica.cost.class_ps[c]) * 1e-12 / at_once);
        }
        idle(replica.off_ps, replica.off_power);
      }
    }
    while (device < group.devices) idle(0, 0);
  }
  write_text(path, text);
}

void write_distributions(const std::filesystem::path& path, const ServingMetrics& metrics) {
  std::vector<double> quantiles;
  for (int i = 0; i <= 198; ++i) quantiles.push_back(static_cast<double>(i) / 200.0);
  for (const double q : {0.992, 0.994, 0.996, 0.998, 0.999, 0.9999, 1.0}) quantiles.push_back(q);
  std::string text = "metric,quantile,value_s\n";
  for (const Distribution& distribution : distributions(metrics)) {
    if (distribution.samples->count() == 0) continue;
    for (const double q : quantiles)
      append(text, "{},{},{:.9g}\n", distribution.name, q, distribution.samples->quantile(q) * distribution.unit_s);
  }
  write_text(path, text);
}

}  // namespace orrery::experiments
