#include "experiments/systems/network/files.hpp"

#include <algorithm>
#include <cmath>

#include "experiments/base/config_parts.hpp"
#include "experiments/systems/network/summary.hpp"
#include "sim/base/csv.hpp"

namespace orrery::experiments::network {
namespace {

void append_end(std::string& out, const std::optional<sim::Time>& time, const sim::TickScale& scale) {
  if (time) append_seconds(out, *time, scale);
  out += ',';
}

}  // namespace

double utilisation(const hw::NetworkLink& link, double carried_bytes, double simulated_s) {
  return link.bandwidth > 0 && simulated_s > 0 ? carried_bytes / (link.bandwidth * simulated_s) : 0;
}

NetworkFiles::NetworkFiles(const std::filesystem::path& folder, const NetworkConfig& config)
    : config_(config),
      scale_(tick_scale(config.run.tick_s)),
      names_(*config.topology),
      jobs_(folder / "jobs.csv"),
      flows_(folder / "flows.csv"),
      links_(folder / "links.csv"),
      loads_(config.run.timeline.enabled && config.run.timeline.links > 0 ? config.topology->links.size() : 0) {
  jobs_.buffer() =
      "name,repetition,collective,algorithm,ranks,bytes,started_s,finished_s,algbw_bytes_per_s,busbw_bytes_per_s,"
      "mode\n";
  flows_.buffer() = "id,from,to,bytes,started_s,finished_s,hops,slowdown\n";
  links_.buffer() = "link,from,to,bandwidth_bytes_per_s,carried_bytes,utilisation\n";
  const TimelineParams& timeline = config.run.timeline;
  if (!timeline.enabled) return;
  options_ = timeline_options(timeline.begin_s, timeline.end_s, timeline.counter_interval_s, timeline.limit_bytes);
  timeline_ = std::make_unique<sim::TimelineWriter>(folder / "timeline.pftrace", options_);
  for (const Job& job : config.jobs) groups_.push_back(timeline_->group(job.params.name));
}

NetworkFiles::~NetworkFiles() = default;

void NetworkFiles::repetition_ended(const RepetitionRecord& record) {
  const Job& job = config_.jobs[record.job];
  std::string& out = jobs_.buffer();
  append(out, "{},{},{},{},{},{},", sim::csv_cell(job.params.name), record.repetition, to_string(job.spec.kind),
         job.algorithm.name, job.ranks(), job.spec.bytes);
  append_seconds(out, record.started, scale_);
  out += ',';
  append_end(out, record.finished, scale_);
  if (record.finished && *record.finished > record.started) {
    const double algbw = static_cast<double>(job.spec.bytes) / scale_.seconds(*record.finished - record.started);
    append(out, "{:.9g},{:.9g},", algbw, algbw * bus_factor(job.spec.kind, job.ranks()));
  } else {
    out += ",,";
  }
  append(out, "{}\n", job.closed_s ? "closed" : "chunks");
  jobs_.line_done();
  if (record.finished) draw_repetition(record);
}

void NetworkFiles::flow_ended(const FlowRecord& record) {
  const std::vector<std::string>& nodes = config_.topology->nodes;
  std::string& out = flows_.buffer();
  append(out, "{},{},{},{},", record.id, sim::csv_cell(nodes[record.from]), sim::csv_cell(nodes[record.to]),
         record.bytes);
  append_seconds(out, record.started, scale_);
  out += ',';
  append_end(out, record.finished, scale_);
  append(out, "{},", record.hops);
  if (record.slowdown) append(out, "{:.6f}", *record.slowdown);
  out += '\n';
  flows_.line_done();
}

void NetworkFiles::loads_change(const sim::FlowNetwork& flows) {
  loads_.take(flows.now(), flows);
}

sim::TrackId NetworkFiles::track(std::size_t job, std::size_t row) {
  const auto [at, fresh] = rows_.try_emplace({job, row});
  if (fresh) {
    const std::string name =
        row == 0 ? "repetitions"
                 : fmt::format("rank {} ({})", row - 1, config_.topology->nodes[config_.jobs[job].nodes[row - 1]]);
    at->second = timeline_->track(groups_[job], name);
  }
  return at->second;
}

bool NetworkFiles::draw(sim::TrackId track, sim::Time from, sim::Time to, const std::string& name,
                        std::int64_t repetition) {
  const std::int64_t begin_ns = nanoseconds(from, scale_);
  const std::int64_t end_ns = nanoseconds(to, scale_);
  if (end_ns <= options_.window.begin_ns || begin_ns >= options_.window.end_ns) return true;
  if (drawn_ >= config_.run.timeline.slices) {
    truncated_ = true;
    return false;
  }
  ++drawn_;
  timeline_->slice(track, begin_ns, end_ns, name, {{"repetition", repetition}});
  return true;
}

void NetworkFiles::draw_repetition(const RepetitionRecord& record) {
  if (!timeline_ || truncated_) return;
  const std::string name(to_string(config_.jobs[record.job].spec.kind));
  if (!draw(track(record.job, 0), record.started, *record.finished, name, record.repetition)) return;
  const std::size_t shown = std::min(record.done.size(), static_cast<std::size_t>(config_.run.timeline.ranks));
  for (std::size_t rank = 0; rank < shown; ++rank)
    if (!draw(track(record.job, rank + 1), record.entered[rank], record.done[rank], name, record.repetition)) return;
}

void NetworkFiles::write_links(const NetworkResult& result) {
  const hw::Topology& topology = *config_.topology;
  const double simulated_s = scale_.seconds(result.end);
  std::string& out = links_.buffer();
  for (hw::LinkIndex l = 0; l < result.carried_bytes.size(); ++l) {
    const hw::NetworkLink& link = topology.links[l];
    if (link.bandwidth <= 0) continue;  // the missing direction of a one-way cable
    append(out, "{},{},{},{:.9g},{:.0f},{:.9g}\n", sim::csv_cell(names_.link_name(l)),
           sim::csv_cell(topology.nodes[link.from]), sim::csv_cell(topology.nodes[link.to]), link.bandwidth,
           result.carried_bytes[l], utilisation(link, result.carried_bytes[l], simulated_s));
    links_.line_done();
  }
}

/// Load of the busiest links, as shares of their bandwidth.
void NetworkFiles::draw_loads(const NetworkResult& result) {
  const std::vector<hw::LinkIndex> busiest =
      busiest_links(config_, result, static_cast<std::size_t>(config_.run.timeline.links));
  if (busiest.empty() || loads_.samples().empty()) return;
  const sim::TrackId group = timeline_->group("busiest links");
  for (const hw::LinkIndex link : busiest) {
    const sim::TrackId counter = timeline_->counter(group, names_.link_name(link), "%");
    const double percent = 100 / config_.topology->links[link].bandwidth;
    float before = -1;
    for (const LoadSamples::Sample& sample : loads_.samples()) {
      if (sample.load[link] == before) continue;
      before = sample.load[link];
      timeline_->count(counter, nanoseconds(sample.from, scale_), static_cast<double>(before) * percent);
    }
    timeline_->count(counter, nanoseconds(loads_.end(), scale_), 0);
  }
}

void NetworkFiles::finish(const NetworkResult& result) {
  write_links(result);
  if (timeline_ && !result.closed) draw_loads(result);
  jobs_.close();
  flows_.close();
  links_.close();
  if (!timeline_) return;
  timeline_->close();
  timeline_full_ = timeline_note(*timeline_, config_.run.timeline.limit_bytes);
}

}  // namespace orrery::experiments::network
