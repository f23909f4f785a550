#include "experiments/systems/graph/files.hpp"

#include "experiments/base/text_file.hpp"
#include "sim/base/csv.hpp"
#include "sim/timeline/timeline.hpp"

namespace orrery::experiments::graph {
namespace {

void write_requests(const std::filesystem::path& path, const GraphResult& result, sim::TickScale scale) {
  BufferedFile file(path);
  std::string& out = file.buffer();
  out += "id,arrived_s,started_s,finished_s,stall_s,compile_s,compiled";
  if (!result.requests.empty())
    for (const auto& [symbol, value] : result.requests.front().sizes.values())
      append(out, ",{0},{0}_run", symbol.name());
  out += '\n';
  for (std::size_t i = 0; i < result.requests.size(); ++i) {
    const RequestRecord& r = result.requests[i];
    append(out, "{},", i);
    append_seconds(out, r.arrived, scale);
    out += ',';
    append_seconds(out, r.started, scale);
    out += ',';
    append_seconds(out, r.finished, scale);
    append(out, ",{:.9g},{:.9g},{}", scale.seconds(r.stall), r.compile_s, r.compiled);
    for (const auto& [symbol, value] : r.sizes.values()) append(out, ",{},{}", value, r.run_as.at(symbol));
    out += '\n';
    file.line_done();
  }
  file.close();
}

void write_energy(const std::filesystem::path& path, const GraphResult& result, sim::TickScale scale) {
  BufferedFile file(path);
  file.buffer() += "device,class,energy_j,busy_s\n";
  for (const sim::EnergyLedger::Account& account : result.energy.accounts())
    append(file.buffer(), "{},{},{:.9g},{:.9g}\n", account.device, account.category,
           static_cast<double>(account.pj) * 1e-12, scale.seconds_of_sum(account.busy_ticks));
  file.close();
}

/// The kernels and transfers of the first request, in the order of their calls.
void write_kernels(const std::filesystem::path& path, const GraphConfig& config, const GraphResult& result,
                   sim::TickScale scale) {
  BufferedFile file(path);
  std::string& out = file.buffer();
  out += "id,op,class,device,call_s,start_s,end_s,flops,bytes,bound,peak_flops,bandwidth\n";
  const TraceDetail& trace = result.trace;
  std::int64_t id = 0;
  for (std::size_t i = 0; i < trace.program.size(); ++i) {
    const hw::Command& command = trace.program[i];
    if (command.kind == hw::CommandKind::record || command.kind == hw::CommandKind::wait) continue;
    const CommandDetail& detail = trace.details[i];
    const PricedKernel* const kernel =
        detail.kernel < 0 ? nullptr : &trace.kernels[static_cast<std::size_t>(detail.kernel)];
    const GraphDevice& machine = *config.device;
    const GraphTarget* const target =
        detail.target < 0 ? nullptr : &machine.targets[static_cast<std::size_t>(detail.target)];
    append(out, "{},", id++);
    sim::append_csv_cell(out, detail.op);
    append(out, ",{},", kernel == nullptr ? "transfer" : hw::to_string(kernel->op_class));
    sim::append_csv_cell(out, target == nullptr ? machine.name : target->name);
    for (const sim::Time time : {trace.timings[i].call, trace.timings[i].begin, trace.timings[i].end}) {
      out += ',';
      append_seconds(out, time, scale);
    }
    if (kernel == nullptr)
      out += ",0,0,,,";
    else
      append(out, ",{:.9g},{:.9g},{},{:.9g},{:.9g}", kernel->cost.flops, kernel->cost.dram_bytes,
             hw::to_string(kernel->cost.bound), kernel->peak_flops,
             (target == nullptr ? machine.device : target->device).memory_bandwidth);
    out += '\n';
    file.line_done();
  }
  file.close();
}

void write_timeline(const std::filesystem::path& path, const GraphConfig& config, const GraphResult& result,
                    sim::TickScale scale) {
  sim::TimelineWriter timeline(path, {});
  const sim::TrackId group = timeline.group(config.device->name);
  const sim::TrackId thread = timeline.track(group, "dispatching thread");
  std::vector<sim::TrackId> streams{timeline.track(group, "stream 0")};
  for (const GraphTarget& target : config.device->targets)
    for (const char* does : {"", ": copies to it", ": copies back"})
      streams.push_back(timeline.track(group, target.name + does));
  const TraceDetail& trace = result.trace;
  for (std::size_t i = 0; i < trace.program.size(); ++i) {
    if (trace.program[i].kind == hw::CommandKind::record || trace.program[i].kind == hw::CommandKind::wait) continue;
    const sim::TrackId stream = streams[static_cast<std::size_t>(trace.program[i].stream)];
    const hw::CommandTiming& timing = trace.timings[i];
    // What follows a kernel without a call of its own has no arrow.
    const sim::TimelineFlow arrow{.id = trace.program[i].chained ? 0 : timeline.new_flow()};
    const std::int64_t call = nanoseconds(timing.call, scale);
    if (!trace.program[i].chained) {
      if (timing.call > timing.host_begin)
        timeline.slice(thread, nanoseconds(timing.host_begin, scale), call, trace.details[i].op);
      timeline.slice(thread, call, nanoseconds(timing.returned, scale), "launch", {}, arrow);
    }
    timeline.slice(stream, nanoseconds(timing.begin, scale), nanoseconds(timing.end, scale), trace.details[i].op, {},
                   {.id = arrow.id, .last = true});
  }
  timeline.close();
}

}  // namespace

void write_files(const std::filesystem::path& folder, const GraphConfig& config, const GraphResult& result) {
  const sim::TickScale scale = tick_scale(config.run.tick_s);
  write_requests(folder / "requests.csv", result, scale);
  write_energy(folder / "energy.csv", result, scale);
  write_kernels(folder / "kernels.csv", config, result, scale);
  if (config.run.timeline) write_timeline(folder / "timeline.pftrace", config, result, scale);
}

}  // namespace orrery::experiments::graph
