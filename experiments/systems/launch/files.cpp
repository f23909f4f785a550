#include "experiments/systems/launch/files.hpp"

#include "experiments/base/text_file.hpp"
#include "experiments/systems/launch/summary.hpp"
#include "sim/timeline/timeline.hpp"

namespace orrery::experiments::launch {
namespace {

void write_points(const std::filesystem::path& path, const LaunchConfig& config, const LaunchResult& result) {
  BufferedFile file(path);
  std::string& out = file.buffer();
  out +=
      "platform,model,batch,launches,tklqt_s,akd_s,il_s,gpu_busy_s,gpu_idle_s,cpu_busy_s,queued,bound,graph_il_s,"
      "graph_capture_s,fused_il_s,fusion_gain,energy_j\n";
  for (const Series& series : result.series)
    for (const Point& point : series.points) {
      const hw::LaunchFigures& f = point.stream;
      append(
          out, "{},{},{},{},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.6g},{},{:.9g},{:.9g},{:.9g},{:.6g},{:.9g}\n",
          config.platforms[series.platform].name, config.models[series.model].name, point.batch, f.launches, f.tklqt_s,
          f.akd_s, f.il_s, f.gpu_busy_s, f.gpu_idle_s, f.cpu_busy_s, f.queued, hw::to_string(f.bound), point.graph.il_s,
          point.capture_s, point.fused.il_s, fusion_gain(point), point.idle_j + point.compute_j + point.memory_j);
      file.line_done();
    }
  file.close();
}

/// energy.csv and series.csv of the passes that the timeline shows: joules by class, and power over time.
void write_energy(const std::filesystem::path& folder, const LaunchConfig& config, const LaunchResult& result) {
  const sim::TickScale scale = tick_scale(config.run.tick_s);
  BufferedFile energy(folder / "energy.csv"), series(folder / "series.csv");
  energy.buffer() += "device,class,energy_j,busy_s\n";
  series.buffer() += "time_s,device,power_w\n";
  for (const PointTrace& trace : result.traces) {
    for (const sim::EnergyLedger::Account& account : trace.energy.accounts())
      append(energy.buffer(), "{},{},{:.9g},{:.9g}\n", account.device, account.category,
             static_cast<double>(account.pj) * 1e-12, scale.seconds_of_sum(account.busy_ticks));
    const sim::PowerSeries& power = *trace.energy.series();
    for (std::size_t bin = 0; bin < power.bins_pj().size(); ++bin) {
      append_seconds(series.buffer(), power.start() + power.bin() * static_cast<std::int64_t>(bin + 1), scale);
      append(series.buffer(), ",{},{:.6g}\n", trace.energy.accounts().front().device, power.watts(bin, scale));
      series.line_done();
    }
  }
  energy.close();
  series.close();
}

void write_timeline(const std::filesystem::path& path, const LaunchConfig& config, const LaunchResult& result) {
  const sim::TickScale scale = tick_scale(config.run.tick_s);
  sim::TimelineWriter timeline(path, {});
  for (std::size_t p = 0; p < result.traces.size(); ++p) {
    const PointTrace& trace = result.traces[p];
    const sim::TrackId group = timeline.group(config.platforms[p].name);
    const sim::TrackId thread = timeline.track(group, "dispatching thread");
    const sim::TrackId device = timeline.track(group, "stream 0");
    const sim::TrackId watts = timeline.counter(group, "power", "W");
    const sim::PowerSeries& power = *trace.energy.series();
    for (std::size_t bin = 0; bin < power.bins_pj().size(); ++bin)
      timeline.count(watts, nanoseconds(power.start() + power.bin() * static_cast<std::int64_t>(bin), scale),
                     power.watts(bin, scale));
    for (std::size_t i = 0; i < trace.program.size(); ++i) {
      const hw::CommandTiming& timing = trace.timings[i];
      const std::string_view name = trace.kernels[i].name;
      const sim::TimelineFlow arrow{.id = timeline.new_flow()};
      const std::int64_t call = nanoseconds(timing.call, scale);
      if (timing.call > timing.host_begin) timeline.slice(thread, nanoseconds(timing.host_begin, scale), call, name);
      timeline.slice(thread, call, nanoseconds(timing.returned, scale), "launch", {}, arrow);
      timeline.slice(device, nanoseconds(timing.begin, scale), nanoseconds(timing.end, scale), name, {},
                     {.id = arrow.id, .last = true});
    }
  }
  timeline.close();
}

}  // namespace

void write_files(const std::filesystem::path& folder, const LaunchConfig& config, const LaunchResult& result) {
  write_points(folder / "points.csv", config, result);
  if (!config.run.timeline.enabled) return;
  write_energy(folder, config, result);
  write_timeline(folder / "timeline.pftrace", config, result);
}

}  // namespace orrery::experiments::launch
