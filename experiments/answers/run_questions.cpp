#include "experiments/answers/run_questions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "sim/base/fault.hpp"

namespace orrery::experiments {
namespace {

std::string rate_text(const std::string& text) {
  return text.find_first_not_of("0123456789.eE+-") == std::string::npos ? text + " 1/s" : text;
}

/// "tbt.p99=100ms" as an element of capacity.limits.
std::string limit_text(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::size_t dot = text.find('.');
  if (equals == std::string::npos)
    sim::throw_fault({"--limit", ""}, fmt::format("expected METRIC.STATISTIC=TIME, got '{}'", text), "tbt.p99=100ms");
  const bool has_statistic = dot < equals;
  return fmt::format(R"({{"metric": "{}", "at": "{}", "most": "{}"}})", text.substr(0, std::min(dot, equals)),
                     has_statistic ? text.substr(dot + 1, equals - dot - 1) : "p99", text.substr(equals + 1));
}

/// "l40s=0.8", or "2" for every part, as an element of plans.prices.
std::string price_text(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string price = equals == std::string::npos ? text : text.substr(equals + 1);
  const auto value = sim::parse_quantity(price, sim::Unit::none);
  if (!value || *value < 0)
    sim::throw_fault({"--price", ""}, fmt::format("expected PART=PRICE or a price, got '{}'", text), "l40s=0.8");
  const std::string part = equals == std::string::npos ? "null" : '"' + text.substr(0, equals) + '"';
  return fmt::format(R"({{"part": {}, "per_hour": {}}})", part, price);
}

/// One text as it stands in a config; inside a list, a text is quoted.
std::string shown(const RunOption& option, const std::string& text) {
  switch (option.form) {
    case OptionForm::value:
      return text;
    case OptionForm::text:
      return option.list ? "\"" + text + "\"" : text;
    case OptionForm::rate:
      return option.list ? "\"" + rate_text(text) + "\"" : rate_text(text);
    case OptionForm::part:
      return "{\"part\": \"" + text + "\"}";
    case OptionForm::limit:
      return limit_text(text);
    case OptionForm::price:
      return price_text(text);
    case OptionForm::enabled:
      return "true";
  }
  return text;
}

const RunOption kTtft{"slo-ttft", "slo.ttft", OptionForm::value, false,
                      "Target for the time to first token of a request (slo.ttft)"};
const RunOption kTbt{"slo-tbt", "slo.tbt", OptionForm::value, false,
                     "Target for the P99 of its times between tokens (slo.tbt)"};

/// Configs of a service, whichever question they were written for, and some more.
std::vector<std::string> with_services(std::vector<std::string> more) {
  more.insert(more.begin(), {"serving", "capacity", "slo_sweep", "plans"});
  return more;
}

RunQuestion capacity() {
  using F = OptionForm;
  return {
      "capacity",
      "Search the highest request rate that meets targets",
      "capacity",
      {kTtft,
       kTbt,
       {"attainment", "capacity.attainment", F::value, false,
        "Least share of requests that attain them (default 0.99, if there is no limit)"},
       {"limit", "capacity.limits", F::limit, true,
        "Bound on a latency of all requests: tbt.p99=100ms, queueing.p50=2s"},
       {"requests", "capacity.requests", F::value, false,
        "Requests of a first run (default: the workload's); runs that are too short are made longer"},
       {"max-requests", "capacity.max_requests", F::value, false, "Requests of the longest run (default 100,000)"},
       {"replications", "capacity.replications", F::value, false, "Most runs of a rate (default 5)"},
       {"tolerance", "capacity.tolerance", F::value, false, "Width of the answer as a share (default 0.02)"},
       {"suggest", "capacity.suggest", F::value, false, "Whether to try changes that lift what binds (default true)"},
       {"start-rate", "capacity.start_rate", F::rate, false, "First rate tried, requests/s (default: the workload's)"},
       {"min-rate", "capacity.min_rate", F::rate, false, "Least rate tried"},
       {"max-rate", "capacity.max_rate", F::rate, false, "Greatest rate tried"}},
      with_services({})};
}

RunQuestion slo() {
  using F = OptionForm;
  return {"slo",
          "Attainment of an SLO against rate and against its scale",
          "slo_sweep",
          {kTtft,
           kTbt,
           {"rates", "slo_sweep.rates", F::rate, true, "Requests/s, with commas (default: around the workload's own)"},
           {"scales", "slo_sweep.scales", F::value, true, "Multiples of the targets, with commas"},
           {"target", "slo_sweep.target", F::value, false, "Share of requests that should attain them (default 0.95)"},
           {"requests", "slo_sweep.requests", F::value, false,
            "Requests of a first run (default: the workload's); runs that are too short are made longer"},
           {"max-requests", "slo_sweep.max_requests", F::value, false, "Requests of the longest run"},
           {"replications", "slo_sweep.replications", F::value, false, "Runs of a point (default 3)"}},
          with_services({})};
}

RunQuestion plans() {
  using F = OptionForm;
  return {"plans",
          "Compare machines and parallelism for a workload: latency, energy, cost, capacity; or plans to train a model",
          "plans",
          {{"parts", "plans.parts", F::part, true, "Parts of the catalog, with commas (default: the config's)"},
           {"devices", "plans.devices", F::value, true, "Numbers of devices"},
           {"tp", "plans.tensor_parallel", F::value, true, "Tensor parallelism (default: powers of two)"},
           {"pp", "plans.pipeline_parallel", F::value, true, "Pipeline stages (default: 1)"},
           {"dp", "plans.data_parallel", F::value, true, "Lanes of a replica that attend by themselves (default: 1)"},
           {"ep", "plans.expert_parallel", F::value, true,
            "Groups of a replica's devices that share out the experts (default: the config's)"},
           {"batching", "plans.batching", F::text, true, "Batching policies"},
           {"dtypes", "plans.dtypes", F::text, true, "Number formats"},
           {"clocks", "plans.clocks", F::text, true, "Clocks, \"1.2 GHz\""},
           {"objectives", "plans.objectives", F::text, true, "latency, ttft, throughput, energy, cost, slo, capacity"},
           {"rank", "plans.rank", F::text, false, "The objective that the best plan is best at"},
           {"explain", "plans.explain", F::text, false,
            "Of training: a plan as the table has it (\"8 8x3 1 1 yes selective none\"), and what it gives up"},
           {"price", "plans.prices", F::price, true,
            "Of a device and hour, for every part or with commas by part (l40s=0.8,a100-sxm4-80gb=1.6): gives cost per "
            "million tokens"},
           {"prices", "plans.price_file", F::text, false, "File of prices (docs/how-to/prices.json is an example)"},
           {"currency", "plans.currency", F::text, false, "What prices are in"},
           kTtft,
           kTbt,
           {"capacity", "plans.capacity", F::enabled, false, "Search each plan's capacity and judge it there"},
           {"attainment", "capacity.attainment", F::value, false,
            "With --capacity: least share of requests that attain the targets (default 0.99)"},
           {"once", "plans.once", F::enabled, false, "Run the workload once, as it is: a job to be done, not a load"},
           {"disaggregated", "plans.disaggregated", F::enabled, false,
            "Also divide the devices between prefill and decode, in every way"},
           {"jobs", "plans.jobs", F::value, false, "Threads; results are the same for any number"}},
          with_services({"training", "training_plans"}),
          {{"training", "training_plans"}, {"training_plans", "training_plans"}}};
}

RunQuestion goodput() {
  using F = OptionForm;
  return {"goodput",
          "What failures cost a training job, and which checkpoint interval costs least",
          "goodput",
          {{"intervals", "goodput.intervals", F::text, true,
            "Checkpoint intervals to try, \"5 min\" (default: some about the best by Daly)"},
           {"points", "goodput.points", F::value, false, "How many of these (default 9)"},
           {"duration", "job.duration", F::text, false, "Time that is looked at, \"54 d\" (job.duration)"},
           {"histories", "job.histories", F::value, false, "Histories that are drawn (job.histories)"},
           {"recovery", "policies.recovery.policy", F::text, false, "What the job does when it loses nodes"},
           {"spares", "job.spares", F::value, false, "Nodes that stand by"},
           {"failures", "failures.per_1000_node_days", F::value, false, "Failures of a node per 1,000 days"}},
          {"training", "training_job", "goodput"}};
}

RunQuestion train() {
  using F = OptionForm;
  return {"train",
          "Train a learner in an environment",
          "rl",
          {{"steps", "train.steps", F::value, false, "Environment steps of a training (train.steps)"},
           {"seeds", "run.seeds", F::value, false, "Trainings, from seed on (run.seeds)"},
           {"jobs", "run.jobs", F::value, false, "Threads; the results are the same for any number (run.jobs)"},
           {"state", "run.state", F::text, false,
            "Folder in which trainings keep their state, to go on from when started again (run.state)"}}};
}

}  // namespace

std::vector<RunQuestion> run_questions() {
  return {capacity(), goodput(), plans(), slo(), train()};
}

RunQuestion run_question(const std::string& name) {
  for (const RunQuestion& question : run_questions())
    if (question.name == name) return question;
  throw std::logic_error("no question is called '" + name + "'");
}

const std::string& RunQuestion::answered_by(std::string_view config_system, const sim::Origin& where) const {
  if (!takes.empty() && !config_system.empty() && std::ranges::find(takes, config_system) == takes.end())
    sim::throw_fault(where, fmt::format("`orrery {}` is asked of a config of {}, got one of {}", name,
                                        fmt::join(takes, ", "), config_system));
  for (const auto& [of, by] : others)
    if (of == config_system) return by;
  return system;
}

std::string option_assignment(const RunOption& option, const std::vector<std::string>& texts) {
  std::string value;
  for (const std::string& text : texts) value += (value.empty() ? "" : ", ") + shown(option, text);
  if (option.form == OptionForm::enabled) value = "true";
  return option.path + "=" + (option.list ? "[" + value + "]" : value);
}

}  // namespace orrery::experiments
