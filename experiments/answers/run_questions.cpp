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
                     "Target for the P99 of the times between tokens of a request (slo.tbt)"};

/// Configs of a service, whichever question they were written for, and some more.
std::vector<std::string> with_services(std::vector<std::string> more) {
  more.insert(more.begin(), {"serving", "capacity", "slo_sweep", "plans"});
  return more;
}

RunQuestion capacity() {
  using F = OptionForm;
  return {
      "capacity",
      "Find the highest request rate that meets the targets",
      "capacity",
      {kTtft,
       kTbt,
       {"attainment", "capacity.attainment", F::value, false,
        "Least attainment: share of requests within the targets (default: 0.99, if there is no limit)"},
       {"limit", "capacity.limits", F::limit, true,
        "Limit on a latency statistic over all requests: tbt.p99=100ms, queueing.p50=2s"},
       {"requests", "capacity.requests", F::value, false,
        "Requests of a first run (default: the workload's); runs that are too short are made longer"},
       {"max-requests", "capacity.max_requests", F::value, false, "Requests of the longest run (default: 100,000)"},
       {"replications", "capacity.replications", F::value, false, "Most runs per rate (default: 5)"},
       {"tolerance", "capacity.tolerance", F::value, false, "Relative width of the answer (default: 0.02)"},
       {"suggest", "capacity.suggest", F::value, false,
        "Whether to try changes that relieve the limiting cause (default: true)"},
       {"start-rate", "capacity.start_rate", F::rate, false, "First rate to try, requests/s (default: the workload's)"},
       {"min-rate", "capacity.min_rate", F::rate, false, "Lowest rate to try, requests/s"},
       {"max-rate", "capacity.max_rate", F::rate, false, "Highest rate to try, requests/s"}},
      with_services({})};
}

RunQuestion slo() {
  using F = OptionForm;
  return {"slo",
          "Show the attainment of an SLO by request rate and by scale of the targets",
          "slo_sweep",
          {kTtft,
           kTbt,
           {"rates", "slo_sweep.rates", F::rate, true,
            "Request rates in requests/s, separated by commas (default: around the workload's own)"},
           {"scales", "slo_sweep.scales", F::value, true, "Multiples of the targets, separated by commas"},
           {"target", "slo_sweep.target", F::value, false,
            "Attainment wanted: share of requests within the targets (default: 0.95)"},
           {"requests", "slo_sweep.requests", F::value, false,
            "Requests of a first run (default: the workload's); runs that are too short are made longer"},
           {"max-requests", "slo_sweep.max_requests", F::value, false, "Requests of the longest run"},
           {"replications", "slo_sweep.replications", F::value, false, "Runs per point (default: 3)"}},
          with_services({})};
}

RunQuestion plans() {
  using F = OptionForm;
  return {
      "plans",
      "Compare machines and parallelism for a workload: latency, energy, cost, capacity; or plans to train a model",
      "plans",
      {{"parts", "plans.parts", F::part, true, "Parts from the catalog, separated by commas (default: the config's)"},
       {"devices", "plans.devices", F::value, true, "Numbers of devices to compare, separated by commas"},
       {"tp", "plans.tensor_parallel", F::value, true, "Degrees of tensor parallelism (default: powers of two)"},
       {"pp", "plans.pipeline_parallel", F::value, true, "Numbers of pipeline stages (default: 1)"},
       {"dp", "plans.data_parallel", F::value, true,
        "Data-parallel lanes of a replica, each with attention of its own (default: 1)"},
       {"ep", "plans.expert_parallel", F::value, true,
        "Groups of a replica's devices that divide the experts among them (default: the config's)"},
       {"batching", "plans.batching", F::text, true, "Batching policies to compare"},
       {"dtypes", "plans.dtypes", F::text, true, "Number formats to compare"},
       {"clocks", "plans.clocks", F::text, true, "Clocks to compare, e.g. \"1.2 GHz\""},
       {"objectives", "plans.objectives", F::text, true,
        "Objectives: latency, ttft, throughput, energy, cost, slo, capacity"},
       {"rank", "plans.rank", F::text, false, "Objective by which the best plan is chosen"},
       {"explain", "plans.explain", F::text, false,
        "Training only: a plan as printed in the table (\"8 8x3 1 1 yes selective none\"), to show what it gives up"},
       {"price", "plans.prices", F::price, true,
        "Price per device and hour, for all parts or separated by commas for each (l40s=0.8,a100-sxm4-80gb=1.6): gives "
        "cost per million tokens"},
       {"prices", "plans.price_file", F::text, false, "File of prices (example: docs/how-to/prices.json)"},
       {"currency", "plans.currency", F::text, false, "Currency of the prices"},
       kTtft,
       kTbt,
       {"capacity", "plans.capacity", F::enabled, false, "Find each plan's capacity and compare plans there"},
       {"attainment", "capacity.attainment", F::value, false, "With --capacity: least attainment (default: 0.99)"},
       {"once", "plans.once", F::enabled, false,
        "Run the workload once, as it is: a job to be completed, not a continuous load"},
       {"disaggregated", "plans.disaggregated", F::enabled, false,
        "Also try every division of the devices between prefill and decode"},
       {"jobs", "plans.jobs", F::value, false, "Number of threads; results do not depend on it"}},
      with_services({"training", "training_plans"}),
      {{"training", "training_plans"}, {"training_plans", "training_plans"}}};
}

RunQuestion goodput() {
  using F = OptionForm;
  return {"goodput",
          "Estimate what failures cost a training job, and which checkpoint interval costs least",
          "goodput",
          {{"intervals", "goodput.intervals", F::text, true,
            "Checkpoint intervals to try, e.g. \"5 min\" (default: some around Daly's optimum)"},
           {"points", "goodput.points", F::value, false, "Number of checkpoint intervals to try (default: 9)"},
           {"duration", "job.duration", F::text, false, "Longest time to simulate, e.g. \"54 d\" (job.duration)"},
           {"histories", "job.histories", F::value, false, "Number of random failure histories (job.histories)"},
           {"recovery", "policies.recovery.policy", F::text, false, "Policy for what the job does when it loses nodes"},
           {"spares", "job.spares", F::value, false, "Number of spare nodes"},
           {"failures", "failures.per_1000_node_days", F::value, false, "Failures per node and 1,000 days"}},
          {"training", "training_job", "goodput"}};
}

RunQuestion train() {
  using F = OptionForm;
  return {"train",
          "Train a learner in an environment",
          "rl",
          {{"steps", "train.steps", F::value, false, "Environment steps of a training run (train.steps)"},
           {"seeds", "run.seeds", F::value, false, "Number of training runs, with consecutive seeds (run.seeds)"},
           {"jobs", "run.jobs", F::value, false, "Number of threads; results do not depend on it (run.jobs)"},
           {"state", "run.state", F::text, false,
            "Folder in which training runs keep their state, to continue when started again (run.state)"}}};
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
