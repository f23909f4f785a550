#include "experiments/serving/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "experiments/run_folder.hpp"
#include "sim/energy_ledger.hpp"

namespace orrery::experiments {
namespace {

constexpr std::size_t kMaxLanes = 512;

void append_optional(std::string& out, const std::optional<sim::Time>& time, const sim::TickScale& scale) {
  if (time) append_seconds(out, *time, scale);
  out += ',';
}

}  // namespace

ServingFiles::ServingFiles(const std::filesystem::path& folder, const FileFacts& facts)
    : facts_(facts), requests_(folder / "requests.csv"), series_(folder / "series.csv") {
  requests_.buffer() =
      "id,arrived_s,admitted_s,first_token_s,finished_s,prompt_tokens,output_tokens,cached_tokens,preemptions,replica,"
      "status\n";
  series_.buffer() = "time_s,replica,running,waiting,kv_used_bytes,batch_tokens,power_w\n";
  if (facts_.timeline) open_timeline(folder / "timeline.pftrace");
}

ServingFiles::~ServingFiles() = default;

void ServingFiles::open_timeline(const std::filesystem::path& path) {
  timeline_ = std::make_unique<sim::TimelineWriter>(path, *facts_.timeline);
  group_ = timeline_->group("replica 0");
  iterations_ = timeline_->track(group_, "iterations");
  running_ = timeline_->counter(group_, "running", "sequences");
  waiting_ = timeline_->counter(group_, "waiting", "sequences");
  kv_ = timeline_->counter(group_, "KV cache", "GiB");
  power_ = timeline_->counter(group_, "power", "W");
  lanes_group_ = timeline_->group("requests");
}

std::int64_t ServingFiles::ns(sim::Time time) const {
  return nanoseconds(time, facts_.scale);
}

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
  if (timeline_ && !truncated_ && record.finished) draw_request(record);
}

void ServingFiles::iterations_ended(const IterationRun& run) {
  advance_series(run);
  if (!timeline_ || truncated_) return;
  const sim::TimelineWindow& window = facts_.timeline->window;
  const std::int64_t ps_per_tick = facts_.scale.ps_per_tick();
  if (ns(iteration(run, run.count - 1, ps_per_tick).end) <= window.begin_ns || ns(run.start) >= window.end_ns) return;
  for (std::int64_t i = 0; i < run.count; ++i) {
    const IterationRecord record = iteration(run, i, ps_per_tick);
    if (ns(record.end) <= window.begin_ns || ns(record.start) >= window.end_ns) continue;
    if (drawn_ >= facts_.timeline_iterations) {
      truncated_ = true;
      return;
    }
    ++drawn_;
    draw_iteration(record);
  }
}

void ServingFiles::series_row(sim::Time at, const IterationRecord& state, std::int64_t batch_tokens) {
  series_row(at, state, batch_tokens, facts_.series_interval);
}

void ServingFiles::series_row(sim::Time at, const IterationRecord& state, std::int64_t batch_tokens,
                              sim::Duration interval) {
  std::string& out = series_.buffer();
  append_seconds(out, at, facts_.scale);
  const double interval_j = static_cast<double>(interval_energy_pj_) * 1e-12;
  append(out, ",{},{},{},{},{},{:.9g}\n", state.replica, state.running, state.waiting, state.kv_used_bytes,
         batch_tokens, facts_.idle_watts + interval_j / facts_.scale.seconds(interval));
  series_.line_done();
  interval_energy_pj_ = 0;
  last_row_ = at;
}

/// To a later grid point, or to the end of time where there is none.
void ServingFiles::advance_row(std::int64_t steps) {
  const __int128 next = next_row_.ticks + static_cast<__int128>(steps) * facts_.series_interval.ticks;
  next_row_ = next < sim::kNever.ticks ? sim::Time{static_cast<std::int64_t>(next)} : sim::kNever;
}

/// Rows of an idle stretch: its first and its last grid point say it all.
void ServingFiles::idle_until(sim::Time time) {
  if (next_row_ >= time) return;
  series_row(next_row_, IterationRecord{}, 0);
  const std::int64_t step = facts_.series_interval.ticks;
  const std::int64_t further = (time.ticks - 1 - next_row_.ticks) / step;
  if (further > 0) {
    advance_row(further);
    series_row(next_row_, IterationRecord{}, 0);
  }
  advance_row(1);
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
void ServingFiles::advance_series(const IterationRun& run) {
  idle_until(run.start);
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
  while (next_row_ < end) {
    const std::int64_t k = iteration_at(run, next_row_);
    const IterationRecord record = iteration(run, k, ps_per_tick);
    if (k > whole) {
      const IterationRecord begun = iteration(run, whole, ps_per_tick);
      interval_energy_pj_ += rest_of(begun, from);
      interval_energy_pj_ += energy_of(k) - energy_of(whole + 1);
      whole = k;
      from = record.start;
    }
    interval_energy_pj_ += sim::energy_share(record.energy_pj, record.start, record.end, from, next_row_);
    series_row(next_row_, record, record.prefill_tokens + record.decodes);
    from = next_row_;
    advance_row(1);
  }
  const IterationRecord begun = iteration(run, whole, ps_per_tick);
  interval_energy_pj_ += rest_of(begun, from);
  interval_energy_pj_ += energy_of(run.count) - energy_of(whole + 1);
}

void ServingFiles::draw_iteration(const IterationRecord& record) {
  const std::int64_t begin = ns(record.start);
  const std::int64_t end = ns(record.end);
  std::string_view name = "mixed";
  if (record.decodes == 0) name = "prefill";
  if (record.prefill_tokens == 0) name = "decode";
  timeline_->slice(
      iterations_, begin, end, name,
      {{"prefill_tokens", record.prefill_tokens}, {"decodes", record.decodes}, {"waiting", record.waiting}});
  timeline_->count(running_, begin, static_cast<double>(record.running));
  timeline_->count(waiting_, begin, static_cast<double>(record.waiting));
  timeline_->count(kv_, begin, static_cast<double>(record.kv_used_bytes) / 1073741824.0);
  const double seconds = facts_.scale.seconds(record.end - record.start);
  timeline_->count(power_, begin, facts_.idle_watts + static_cast<double>(record.energy_pj) * 1e-12 / seconds);
}

void ServingFiles::draw_request(const RequestRecord& record) {
  auto lane =
      std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) { return l.free_from <= *record.admitted; });
  if (lane == lanes_.end()) {
    if (lanes_.size() == kMaxLanes) return;
    lanes_.push_back({timeline_->track(lanes_group_, fmt::format("slot {}", lanes_.size())), {}});
    lane = std::prev(lanes_.end());
  }
  lane->free_from = *record.finished;
  const std::int64_t queued_us = (ns(*record.admitted) - ns(record.arrived)) / 1000;
  timeline_->slice(lane->track, ns(*record.admitted), ns(*record.first_token), "prefill",
                   {{"request", record.id}, {"prompt_tokens", record.prompt_tokens}, {"queued_us", queued_us}});
  if (*record.finished > *record.first_token)
    timeline_->slice(
        lane->track, ns(*record.first_token), ns(*record.finished), "decode",
        {{"request", record.id}, {"output_tokens", record.output_tokens}, {"preemptions", record.preemptions}});
}

void ServingFiles::finish(sim::Time end) {
  idle_until(end);
  if (end > last_row_) series_row(end, IterationRecord{}, 0, end - last_row_);  // the last, partial interval
  requests_.close();
  series_.close();
  if (timeline_) timeline_->close();
}

void write_energy(const std::filesystem::path& path, const ServingMetrics& metrics, const MachineFacts& machine,
                  const std::string& part, double simulated_s) {
  std::string text = "device,class,energy_j,busy_s\n";
  for (std::int64_t device = 0; device < machine.devices; ++device) {
    const bool active = device < machine.active_devices;
    for (std::size_t c = 0; active && c < metrics.cost.class_ps.size(); ++c) {
      if (metrics.cost.class_ps[c] == 0) continue;
      append(text, "{}[{}],{},{:.9g},{:.9g}\n", part, device, hw::to_string(static_cast<hw::OpClass>(c)),
             static_cast<double>(metrics.cost.class_pj[c]) * 1e-12 / static_cast<double>(machine.active_devices),
             static_cast<double>(metrics.cost.class_ps[c]) * 1e-12);
    }
    append(text, "{}[{}],idle,{:.9g},{:.9g}\n", part, device, machine.idle_watts * simulated_s, 0.0);
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
