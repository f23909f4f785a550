#include "experiments/job/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "experiments/base/config_experiment.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/job/closed_form.hpp"
#include "experiments/job/outcome.hpp"

namespace orrery::experiments {
namespace job {
namespace {

using sim::Node;

class JobExperiment : public ConfigExperiment {
 public:
  explicit JobExperiment(JobConfig config) : config_(std::move(config)) {
    resolved_ = config_.resolved;
    inputs_ = config_.inputs;
    seed_ = config_.params.run.seed;
  }

  std::vector<std::pair<std::string, std::string>> restated() const override {
    const JobSections& p = config_.params;
    std::vector<std::pair<std::string, std::string>> lines;
    if (config_.training) {
      lines.emplace_back("model", config_.training->model.forward.name);
      lines.emplace_back(
          "machine", fmt::format("{} {}", config_.training->machine.devices, config_.training->machine.device.name));
    } else {
      lines.emplace_back("machine", fmt::format("{} nodes of {} devices, a step of {}", p.job.nodes, p.job.node_devices,
                                                sim::humanise(p.job.step_s, sim::Unit::seconds)));
    }
    lines.emplace_back("failures", config_.failures.traced ? fmt::format("{} of a trace", config_.failures.trace.size())
                                                           : fmt::format("{:.4g} per 1,000 node-days",
                                                                         config_.failures.per_node() * 1000 * 86400));
    lines.emplace_back("recovery", p.policies.recovery.name);
    return lines;
  }

  Outcome run(const RunSink& sink) const override {
    const JobShape shape = job_shape(config_);
    if (!shape.obstacle.empty()) return Outcome::infeasible(shape.obstacle, config_.notes);
    return run_job(shape, sink);
  }

 protected:
  JobConfig config_;

 private:
  Outcome run_job(const JobShape& shape, const RunSink& sink) const {
    std::unique_ptr<BufferedFile> file;
    if (sink.folder) {
      file = std::make_unique<BufferedFile>(*sink.folder / "events.csv");
      file->buffer() += "event,begin_s,end_s,node,component,steps,step_s,share\n";
    }
    const auto tell = [&](const JobEvent& event) {
      if (!file) return;
      append(file->buffer(), "{},{:.6f},{:.6f},{},{},{:.12g},{:.9g},{:.6g}\n", sim::to_string(event.kind),
             event.begin_s, event.end_s, event.node < 0 ? "" : fmt::format("{}", event.node),
             event.component < 0 ? "" : config_.failures.names[static_cast<std::size_t>(event.component)], event.steps,
             event.step_s, event.share);
      file->line_done();
    };
    const JobOutcome outcome = play_all(config_, shape, tell);
    if (file) file->close();
    return {.summary = job_summary(config_, shape, outcome),
            .events = static_cast<std::uint64_t>(outcome.events),
            .notes = config_.notes};
  }
};

struct GoodputParams {
  std::vector<double> intervals_s;
  std::int64_t points = 9;
  double span = 8;
  static constexpr auto fields() {
    using sim::Unit;
    using G = GoodputParams;
    return sim::FieldTable{
        sim::field("intervals", &G::intervals_s, Unit::seconds, sim::between(1e-3, 1e9),
                   "Checkpoint intervals to try; empty: some around Daly's optimum, or around checkpoint.interval if "
                   "the job does not wait for checkpoints."),
        sim::field("points", &G::points, Unit::count, sim::between(1, 1000),
                   "Number of intervals to try, if none are given."),
        sim::field("span", &G::span, Unit::ratio, sim::between(1, 1e6),
                   "Ratio of the longest interval to the middle one, and of the middle one to the shortest.")};
  }
};

/// One interval that was tried.
struct Tried {
  JobOutcome outcome;
  double interval_s = 0;
};

const FigureTable<Tried>& tried_table() {
  using T = Tried;
  static const FigureTable<T> table{
      {"interval_s", "s", "Training time between two checkpoints, in whole steps.",
       [](const T& t) { return t.interval_s; }},
      {"ettr", "ratio", "Effective training time ratio (ETTR): effective training time over the whole time.",
       [](const T& t) { return t.outcome.mean_ettr(); }},
      {"{closed_form,published}", "ratio", "Effective training time ratio by the closed forms, as in training_job.",
       [](const T& t) -> FigureValue {
         if (t.outcome.mttf_s <= 0) return std::nullopt;
         return t.outcome.exact;
       },
       [](const T& t) -> FigureValue {
         if (t.outcome.mttf_s <= 0) return std::nullopt;
         return t.outcome.published;
       }},
      {"time_share.{lost,checkpoints,recovery}", "ratio", "Shares of the whole time, as in training_job.",
       [](const T& t) { return t.outcome.seconds.lost / t.outcome.wall_s; },
       [](const T& t) { return t.outcome.seconds.checkpoints / t.outcome.wall_s; },
       [](const T& t) { return t.outcome.seconds.recovery / t.outcome.wall_s; }}};
  return table;
}

/// Intervals within so much of the best ETTR are as good: the optimum is flat.
constexpr double kAsGood = 0.01;

struct Answered {
  Node own;  ///< the job as it is
  std::vector<Tried> tried;
  const Tried& best() const {
    return *std::ranges::max_element(tried, {}, [](const Tried& one) { return one.outcome.mean_ettr(); });
  }
  /// The shortest and the longest interval that are as good as the best.
  std::pair<double, double> as_good() const {
    std::pair<double, double> range{best().interval_s, best().interval_s};
    for (const Tried& one : tried)
      if (one.outcome.mean_ettr() >= best().outcome.mean_ettr() - kAsGood)
        range = {std::min(range.first, one.interval_s), std::max(range.second, one.interval_s)};
    return range;
  }
};

const FigureTable<Answered>& answer_table() {
  using A = Answered;
  static const FigureTable<A> table{
      {"best.interval_s", "s", "Checkpoint interval with the highest effective training time ratio of those tried.",
       [](const A& a) { return a.best().interval_s; }},
      {"best.ettr", "ratio", "Effective training time ratio at the best interval.",
       [](const A& a) { return a.best().outcome.mean_ettr(); }},
      {"as_good.{from_s,to_s}", "s",
       "Range of intervals whose effective training time ratio is within one percentage point of the best.",
       [](const A& a) { return a.as_good().first; }, [](const A& a) { return a.as_good().second; }},
      {"tried.*", tried_table().infos(), [](const A& a) {
         Node list = Node::array();
         for (const Tried& one : a.tried) list.push(tried_table().written(one));
         return list;
       }}};
  return table;
}

class GoodputExperiment final : public JobExperiment {
 public:
  GoodputExperiment(JobConfig config, GoodputParams params)
      : JobExperiment(std::move(config)), params_(std::move(params)) {
    resolved_.set("goodput", sim::write_params(params_));
  }

  Outcome run(const RunSink& sink) const override {
    const JobShape shape = job_shape(config_);
    if (!shape.obstacle.empty()) return Outcome::infeasible(shape.obstacle, config_.notes);
    return ask(shape, sink);
  }

 private:
  Outcome ask(const JobShape& shape, const RunSink& sink) const {
    const JobConfig base = with_histories(shape);
    const JobOutcome own = play_all(base, shape, {});
    Answered answered{.own = job_summary(base, shape, own)};
    std::int64_t last = 0, events = own.events;
    for (const double interval : intervals(own)) {
      JobConfig config = base;
      config.params.checkpoint.interval_s = interval;
      const std::int64_t steps = job_times(config, shape).interval_steps;
      if (steps == last) continue;  // steps are whole
      last = steps;
      answered.tried.push_back({play_all(config, shape, {}), static_cast<double>(steps) * shape.step_s});
      events += answered.tried.back().outcome.events;
      if (sink.progress) sink.progress({.done = std::ssize(answered.tried), .simulated_s = 0, .what = "intervals"});
    }
    Node summary = std::move(answered.own);
    answer_table().write(answered, summary);
    summary.set("events", Node::integer(events));
    if (sink.folder) write_table(*sink.folder / "intervals.csv", answered);
    std::vector<std::string> notes = config_.notes;
    if (own.times.pause_s <= 0)
      notes.emplace_back(
          "checkpoints take no time here, so short intervals are best: checkpoint.storage (or write, pause) says what "
          "they take");
    return {.summary = std::move(summary), .events = static_cast<std::uint64_t>(events), .notes = std::move(notes)};
  }

  /// Differences between intervals are small beside the luck of a single history.
  JobConfig with_histories(const JobShape& shape) const {
    constexpr double kFailures = 1000;
    JobConfig config = config_;
    std::int64_t& histories = config.params.job.histories;
    const double one = config.params.job.duration_s *
                       (static_cast<double>(shape.nodes) * config.failures.per_node() + config.failures.per_job_s);
    if (histories == 0) histories = static_cast<std::int64_t>(std::clamp(std::ceil(kFailures / one), 1.0, kFailures));
    return config;
  }

  std::vector<double> intervals(const JobOutcome& own) const {
    if (!params_.intervals_s.empty()) {
      std::vector<double> all = params_.intervals_s;
      std::ranges::sort(all);
      return all;
    }
    double middle = config_.params.checkpoint.interval_s;
    if (own.mttf_s > 0 && own.times.pause_s > 0) middle = daly_interval_s(own.times.pause_s, own.mttf_s);
    std::vector<double> all;
    for (std::int64_t i = 0; i < params_.points; ++i) {
      const double at =
          params_.points > 1 ? 2 * static_cast<double>(i) / static_cast<double>(params_.points - 1) - 1 : 0;
      all.push_back(middle * sim::det_pow(params_.span, at));
    }
    return all;
  }

  static void write_table(const std::filesystem::path& path, const Answered& answered) {
    BufferedFile file(path);
    file.buffer() += "interval_s,ettr,closed_form,published,lost,checkpoints,recovery\n";
    for (const Tried& one : answered.tried) {
      const JobOutcome& o = one.outcome;
      append(file.buffer(), "{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g}\n", one.interval_s, o.mean_ettr(),
             o.exact, o.published, o.seconds.lost / o.wall_s, o.seconds.checkpoints / o.wall_s,
             o.seconds.recovery / o.wall_s);
      file.line_done();
    }
    file.close();
  }

  GoodputParams params_;
};

struct GoodputSections : JobSections {
  GoodputParams goodput;
  static constexpr auto fields() {
    return sim::joined(
        sim::inherited<GoodputSections>(JobSections::fields()),
        sim::FieldTable{sim::section("goodput", &GoodputSections::goodput, "Checkpoint intervals to try.")});
  }
};

std::vector<FigureInfo> goodput_figures() {
  std::vector<FigureInfo> all = job_figures();
  for (FigureInfo& info : answer_table().infos()) all.push_back(std::move(info));
  return all;
}

}  // namespace
}  // namespace job

System training_job_system() {
  return {
      .name = "training_job",
      .doc = "A training job over weeks: failures, checkpoints, recovery, and the effective training time.",
      .fields = describe_sections<job::JobSections>,
      .figures = job::job_figures(),
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        job::JobConfig config = job::read_job_config(root, "training_job", *systems.registries(), faults);
        faults.throw_if_any();
        return std::make_unique<job::JobExperiment>(std::move(config));
      }};
}

System goodput_system() {
  return {
      .name = "goodput",
      .doc = "What failures cost a training job, and which checkpoint interval costs least.",
      .fields = describe_sections<job::GoodputSections>,
      .figures = job::goodput_figures(),
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        sim::Node own = root;
        own.erase("goodput");
        job::JobConfig config = job::read_job_config(own, "goodput", *systems.registries(), faults);
        auto params = sim::parse_params<job::GoodputParams>(section(root, "goodput"), *systems.registries(), faults);
        faults.throw_if_any();
        return std::make_unique<job::GoodputExperiment>(std::move(config), std::move(params));
      }};
}

}  // namespace orrery::experiments
