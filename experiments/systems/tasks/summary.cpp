#include "experiments/systems/tasks/summary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/figures.hpp"
#include "experiments/base/text_file.hpp"
#include "sim/timeline/timeline.hpp"

namespace orrery::experiments::tasks {
namespace {

using sim::Node;

constexpr std::size_t kLongest = 5;      // tasks of the critical path that are named …
constexpr std::size_t kNameLength = 60;  // … and how much of a name

struct Source {
  const TasksConfig& config;
  const TasksResult& result;
  sim::TickScale scale = tick_scale(config.params.run.tick_s);
  double seconds(sim::Duration time) const { return scale.seconds(sim::Time{0} + time); }
};

struct RankSource {
  const Source& of;
  const RankTimes& times;
};

const FigureTable<RankSource>& rank_table() {
  using Rank = RankSource;
  static const FigureTable<Rank> table{
      {"{busy_s,communication_s,exposed_s,finish_s}", "s",
       "Times of this rank: its device computes; its communication is on links; the part of that while the device is "
       "idle; end of its last task.",
       [](const Rank& rank) { return rank.of.seconds(rank.times.busy); },
       [](const Rank& rank) { return rank.of.seconds(rank.times.communication); },
       [](const Rank& rank) { return rank.of.seconds(rank.times.exposed); },
       [](const Rank& rank) { return rank.of.scale.seconds(rank.times.finish); }},
      {"tasks", "count", "Nodes of the rank's trace.", [](const Rank& rank) { return rank.times.tasks; }}};
  return table;
}

const FigureTable<Source>& path_table() {
  static const FigureTable<Source> table{
      {"{compute_s,communication_s,memory_s,waiting_s}", "s",
       "Time on the critical path by kind: devices and CPUs at work, messages and collectives, loads and stores, "
       "nothing running. They add up to makespan_s.",
       [](const Source& s) { return s.seconds(s.result.path.compute); },
       [](const Source& s) { return s.seconds(s.result.path.communication); },
       [](const Source& s) { return s.seconds(s.result.path.memory); },
       [](const Source& s) { return s.seconds(s.result.path.waiting); }},
      {"tasks", "count", "Tasks on the critical path.",
       [](const Source& s) { return static_cast<std::int64_t>(s.result.path.steps.size()); }},
      {"longest", "", "Longest tasks on the critical path.", [](const Source& s) {
         std::vector<sim::PathStep> steps = s.result.path.steps;
         std::stable_sort(steps.begin(), steps.end(),
                          [](const sim::PathStep& a, const sim::PathStep& b) { return a.length() > b.length(); });
         Node list = Node::array();
         for (std::size_t i = 0; i < std::min(kLongest, steps.size()); ++i) {
           const TracedTask& task = s.result.trace.tasks[steps[i].task.index];
           list.push(Node::string(fmt::format("rank {} '{}': {}", task.rank, task.node->name.substr(0, kNameLength),
                                              sim::humanise(s.seconds(steps[i].length()), sim::Unit::seconds))));
         }
         return list;
       }}};
  return table;
}

double mean_share(const Source& s, sim::Duration RankTimes::*part) {
  double sum = 0;
  for (const RankTimes& rank : s.result.ranks) sum += s.seconds(rank.*part);
  const double all = s.seconds(s.result.makespan) * static_cast<double>(s.result.ranks.size());
  return all > 0 ? sum / all : 0;
}

const FigureTable<Source>& table() {
  static const FigureTable<Source> figures{
      {"status", "", "`ok`.", [](const Source&) { return std::string("ok"); }},
      {"makespan_s", "s", "Time until the last task of the last rank ends.",
       [](const Source& s) { return s.seconds(s.result.makespan); }},
      {"bound_s", "s",
       "Lower bounds of the makespan: the longest chain of tasks (with messages as long as they took); the work of "
       "each device.",
       [](const Source& s) { return s.seconds(s.result.bound); }},
      {"rank_count", "count", "Ranks.",
       [](const Source& s) { return static_cast<std::int64_t>(s.result.ranks.size()); }},
      {"task_count", "count", "Nodes of all traces.",
       [](const Source& s) { return static_cast<std::int64_t>(s.result.runs.size()); }},
      {"collectives", "count", "Collectives that the ranks ran.",
       [](const Source& s) { return static_cast<std::int64_t>(s.result.trace.collectives.size()); }},
      {"share.{busy,exposed}", "ratio",
       "Shares of the ranks' time: devices at work; communication not hidden by computation.",
       [](const Source& s) { return mean_share(s, &RankTimes::busy); },
       [](const Source& s) { return mean_share(s, &RankTimes::exposed); }},
      {"critical_path", path_table().infos(), [](const Source& s) { return path_table().written(s); }},
      {"carried_bytes", "B", "Bytes over all links; a message counts on each link of its path.",
       [](const Source& s) { return s.result.carried_bytes; }},
      {"ranks.*", rank_table().infos(),
       [](const Source& s) {
         Node list = Node::array();
         for (const RankTimes& times : s.result.ranks) list.push(rank_table().written({s, times}));
         return list;
       }},
      {"events", "count", "Events of the simulation engine.",
       [](const Source& s) { return static_cast<std::int64_t>(s.result.events); }}};
  return figures;
}

}  // namespace

Node summarise(const TasksConfig& config, const TasksResult& result) {
  return table().written(Source{config, result});
}

std::vector<FigureInfo> tasks_figures() {
  return table().infos();
}

void write_tasks(const std::filesystem::path& path, const TasksConfig& config, const TasksResult& result) {
  const sim::TickScale scale = tick_scale(config.params.run.tick_s);
  BufferedFile file(path);
  file.buffer() += "rank,id,name,kind,bytes,ready_s,start_s,finish_s\n";
  file.line_done();
  for (std::size_t i = 0; i < result.runs.size(); ++i) {
    const TracedTask& task = result.trace.tasks[i];
    std::string& out = file.buffer();
    append(out, "{},{},{},{},{}", task.rank, task.node->id, sim::Node::string(task.node->name).dump(),
           sim::to_string(task.kind), task.bytes);
    for (const sim::Time time : {result.runs[i].ready, result.runs[i].start, result.runs[i].finish}) {
      out += ',';
      append_seconds(out, time, scale);
    }
    out += '\n';
    file.line_done();
  }
  file.close();
}

void write_timeline(const std::filesystem::path& path, const TasksConfig& config, const TasksResult& result) {
  const sim::TickScale scale = tick_scale(config.params.run.tick_s);
  sim::TimelineWriter writer(path);
  struct Tracks {
    sim::TrackId device, cpu, links;
  };
  std::vector<Tracks> tracks;
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    const sim::TrackId group = writer.group(fmt::format("rank {}", rank));
    tracks.push_back({writer.track(group, "device"), writer.track(group, "CPU"), writer.track(group, "communication")});
  }
  for (std::size_t i = 0; i < result.runs.size(); ++i) {
    const TracedTask& task = result.trace.tasks[i];
    if (result.runs[i].start == result.runs[i].finish) continue;
    const Tracks& own = tracks[static_cast<std::size_t>(task.rank)];
    const sim::TrackId track = task.kind == TaskKind::compute ? own.device
                               : task.kind == TaskKind::cpu   ? own.cpu
                                                              : own.links;
    writer.slice(track, nanoseconds(result.runs[i].start, scale), nanoseconds(result.runs[i].finish, scale),
                 task.node->name, {{"node", static_cast<std::int64_t>(task.node->id)}, {"bytes", task.bytes}});
  }
  writer.close();
}

}  // namespace orrery::experiments::tasks
