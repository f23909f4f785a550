#include "experiments/job/outcome.hpp"

#include <algorithm>
#include <cmath>

#include "experiments/job/closed_form.hpp"

namespace orrery::experiments::job {
namespace {

using sim::Node;

struct Source {
  const JobConfig& config;
  const JobShape& shape;
  const JobOutcome& outcome;
  double share(double seconds) const { return seconds / outcome.wall_s; }
  double price() const { return config.params.workload.price_per_hour; }
  double tokens() const { return outcome.steps * shape.tokens; }
  /// Days in which this job trains on workload.tokens.
  double days_for_tokens() const { return config.params.workload.tokens / (tokens() / outcome.wall_s) / 86400; }
  bool known_tokens() const { return shape.tokens > 0 && outcome.steps > 0; }
  double at(double quantile) const {
    const auto last = static_cast<double>(outcome.ettr.size() - 1);
    return outcome.ettr[static_cast<std::size_t>(std::llround(quantile * last))];
  }
};

const FigureTable<Source>& job_table() {
  using S = Source;
  static const FigureTable<S> table{
      {"status", "", "`ok` or `infeasible`.", [](const S&) { return std::string("ok"); }},
      {"job.{wall_s,step_s}", "s", "Simulated time of the job; time of a step with every node at work.",
       [](const S& s) { return s.outcome.wall_s; }, [](const S& s) { return s.shape.step_s; }},
      {"job.{steps,steps_run}", "", "Steps done and not lost, in whole batches; all steps begun, lost ones included.",
       [](const S& s) { return s.outcome.steps; }, [](const S& s) { return s.outcome.runs; }},
      {"job.{nodes,devices}", "count", "Nodes and devices at work.", [](const S& s) { return s.shape.nodes; },
       [](const S& s) { return s.shape.ranks; }},
      {"job.state_bytes", "B", "Bytes of a checkpoint.", [](const S& s) { return s.shape.state_bytes; }},
      {"job.done", "ratio", "Share of histories in which job.steps were reached; absent if job.steps is 0.",
       [](const S& s) -> FigureValue {
         if (s.config.params.job.steps == 0) return std::nullopt;
         return s.outcome.done;
       }},
      {"ettr.{mean,p5,p95}", "ratio",
       "Effective training time ratio (ETTR): time of the steps not lost, at the speed with every node, over the whole "
       "time. Mean and percentiles over histories.",
       [](const S& s) { return s.outcome.mean_ettr(); }, [](const S& s) { return s.at(0.05); },
       [](const S& s) { return s.at(0.95); }},
      {"ettr.{closed_form,published}", "ratio",
       "ETTR of a job that restarts after each failure and always finds nodes. `closed_form`: exact for constant rates "
       "(Daly 2006). `published`: 1 - (R + I/2)/MTTF. Absent if failures come from a trace.",
       [](const S& s) -> FigureValue {
         if (s.outcome.mttf_s <= 0) return std::nullopt;
         return s.outcome.exact;
       },
       [](const S& s) -> FigureValue {
         if (s.outcome.mttf_s <= 0) return std::nullopt;
         return s.outcome.published;
       }},
      {"time_share.{productive,slower,lost,checkpoints,recovery,waiting}", "ratio",
       "Shares of the whole time, adding up to 1. `productive`: steps not lost. `slower`: their extra time for lost "
       "nodes and the policy's overhead. `lost`: steps redone or cut off. `checkpoints`: waiting for checkpoints. "
       "`recovery`: detection, restarts, communicators, moving state. `waiting`: waiting for nodes.",
       [](const S& s) { return s.share(s.outcome.seconds.productive); },
       [](const S& s) { return s.share(s.outcome.seconds.slower); },
       [](const S& s) { return s.share(s.outcome.seconds.lost); },
       [](const S& s) { return s.share(s.outcome.seconds.checkpoints); },
       [](const S& s) { return s.share(s.outcome.seconds.recovery); },
       [](const S& s) { return s.share(s.outcome.seconds.waiting); }},
      {"failures.{all,rollbacks}", "count",
       "Failures that interrupted the job; returns to a checkpoint or an in-memory copy. Means over histories.",
       [](const S& s) { return s.outcome.failures; }, [](const S& s) { return s.outcome.rollbacks; }},
      {"failures.by_component.*", "count", "Failures of each component.",
       [](const S& s) {
         Node all = Node::object();
         for (std::size_t i = 0; i < s.outcome.by_component.size(); ++i)
           all.set(s.config.failures.names[i], Node::real(s.outcome.by_component[i]));
         return all;
       }},
      {"failures.mttf_s", "s", "Mean time to failure by the rates; absent if failures come from a trace.",
       [](const S& s) -> FigureValue {
         if (s.outcome.mttf_s <= 0) return std::nullopt;
         return s.outcome.mttf_s;
       }},
      {"failures.mttr_s", "s", "Mean time to recovery: from a failure to the next step.",
       [](const S& s) -> FigureValue {
         if (s.outcome.recoveries <= 0) return std::nullopt;
         return s.outcome.down_s / s.outcome.recoveries;
       }},
      {"checkpoint.{interval_s,pause_s,write_s,load_s}", "s",
       "Times of a checkpoint: training between two, in whole steps; while the job waits; until an asynchronous one is "
       "complete; to read one.",
       [](const S& s) { return static_cast<double>(s.outcome.times.interval_steps) * s.shape.step_s; },
       [](const S& s) { return s.outcome.times.pause_s; }, [](const S& s) { return s.outcome.times.write_s; },
       [](const S& s) { return s.outcome.times.load_s; }},
      {"checkpoint.taken", "count", "Checkpoints taken, mean over histories.",
       [](const S& s) { return s.outcome.checkpoints; }},
      {"checkpoint.{young_s,daly_s}", "s",
       "Best checkpoint interval by Young, and to higher order by Daly; absent if the job does not wait for "
       "checkpoints.",
       [](const S& s) -> FigureValue {
         if (s.outcome.mttf_s <= 0 || s.outcome.times.pause_s <= 0) return std::nullopt;
         return young_interval_s(s.outcome.times.pause_s, s.outcome.mttf_s);
       },
       [](const S& s) -> FigureValue {
         if (s.outcome.mttf_s <= 0 || s.outcome.times.pause_s <= 0) return std::nullopt;
         return daly_interval_s(s.outcome.times.pause_s, s.outcome.mttf_s);
       }},
      {"tokens_per_s", "1/s", "Tokens per second trained on and not lost; absent for a job without a model.",
       [](const S& s) -> FigureValue {
         if (!s.known_tokens()) return std::nullopt;
         return s.tokens() / s.outcome.wall_s;
       }},
      {"whole.{days,device_hours}", "",
       "Time and device hours to train on workload.tokens, if that is given; spare devices count too.",
       [](const S& s) -> FigureValue {
         if (s.config.params.workload.tokens <= 0 || !s.known_tokens()) return std::nullopt;
         return s.days_for_tokens();
       },
       [](const S& s) -> FigureValue {
         if (s.config.params.workload.tokens <= 0 || !s.known_tokens()) return std::nullopt;
         return s.days_for_tokens() * 24 *
                static_cast<double>(s.shape.ranks + s.config.params.job.spares * s.shape.node_devices);
       }},
      {"whole.cost", "", "Cost of these device hours at workload.price.",
       [](const S& s) -> FigureValue {
         if (s.config.params.workload.tokens <= 0 || !s.known_tokens() || s.price() <= 0) return std::nullopt;
         return s.days_for_tokens() * 24 * s.price() *
                static_cast<double>(s.shape.ranks + s.config.params.job.spares * s.shape.node_devices);
       }},
      {"events", "count", "Failures, recoveries, checkpoints and returns of the first history.",
       [](const S& s) { return s.outcome.events; }}};
  return table;
}

}  // namespace

JobOutcome play_all(const JobConfig& config, const JobShape& shape, const std::function<void(const JobEvent&)>& tell) {
  JobOutcome outcome{.times = job_times(config, shape)};
  const std::int64_t histories = config.failures.traced ? 1 : std::max<std::int64_t>(1, config.params.job.histories);
  const auto share = 1 / static_cast<double>(histories);
  outcome.by_component.assign(config.failures.names.size(), 0);
  const std::function<void(const JobEvent&)> first = [&](const JobEvent& event) {
    ++outcome.events;
    if (tell) tell(event);
  };
  for (std::int64_t i = 0; i < histories; ++i) {
    const History one = play(config, shape, i, i == 0 ? first : std::function<void(const JobEvent&)>());
    outcome.seconds += one.seconds;
    outcome.wall_s += one.seconds.whole() * share;
    outcome.steps += one.steps * share;
    outcome.runs += static_cast<double>(one.runs) * share;
    outcome.failures += static_cast<double>(one.failures) * share;
    outcome.rollbacks += static_cast<double>(one.rollbacks) * share;
    outcome.checkpoints += static_cast<double>(one.checkpoints) * share;
    outcome.down_s += one.down_s * share;
    outcome.recoveries += static_cast<double>(one.recoveries) * share;
    outcome.done += one.done ? share : 0;
    for (std::size_t c = 0; c < outcome.by_component.size(); ++c)
      outcome.by_component[c] += static_cast<double>(one.by_component[c]) * share;
    outcome.ettr.push_back(one.seconds.productive / one.seconds.whole());
  }
  JobSeconds& all = outcome.seconds;
  for (double* one : {&all.productive, &all.slower, &all.lost, &all.checkpoints, &all.recovery, &all.waiting})
    *one *= share;
  std::ranges::sort(outcome.ettr);
  const double rate = static_cast<double>(shape.nodes) * config.failures.per_node() + config.failures.per_job_s;
  if (!config.failures.traced) {
    const RecoveryParams& r = config.params.recovery;
    const CheckpointTimes times{static_cast<double>(outcome.times.interval_steps) * shape.step_s, outcome.times.pause_s,
                                r.detect_s + r.restart_s + outcome.times.load_s + r.communicator_s +
                                    r.communicator_rank_s * static_cast<double>(shape.ranks)};
    outcome.mttf_s = 1 / rate;
    outcome.exact = exact_ettr(times, outcome.mttf_s);
    outcome.published = published_ettr(times, outcome.mttf_s);
  }
  return outcome;
}

std::vector<FigureInfo> job_figures() {
  return figures_or_reason(job_table().infos());
}

Node job_summary(const JobConfig& config, const JobShape& shape, const JobOutcome& outcome) {
  return job_table().written({config, shape, outcome});
}

}  // namespace orrery::experiments::job
