#include "experiments/rl/play.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>

#include "experiments/base/parallel.hpp"
#include "experiments/base/quartiles.hpp"
#include "experiments/claims/figure.hpp"
#include "experiments/rl/envs/serving_env.hpp"
#include "experiments/rl/learned_policies.hpp"
#include "experiments/rl/looks.hpp"
#include "experiments/rl/training.hpp"
#include "policies/registries.hpp"

namespace orrery::experiments::rl {
namespace {

using sim::Node;

/// Figures of a run by which policies are compared, and whether less is better.
struct Figure {
  const char *name, *path;
  bool less = true;
};
constexpr Figure kCacheFigures[] = {{"hit rate", "cache.hit_rate", false},
                                    {"misses", "cache.misses"},
                                    {"tokens/s", "throughput.tokens_per_s", false},
                                    {"J/token", "energy_per_token_j"}};
constexpr Figure kServingFigures[] = {{"TTFT mean", "ttft_s.mean"},
                                      {"TTFT P99", "ttft_s.p99"},
                                      {"E2E mean", "e2e_s.mean"},
                                      {"E2E P99", "e2e_s.p99"},
                                      {"SLO attained", "slo.attainment", false},
                                      {"J/token", "energy_per_output_token_j"}};

std::span<const Figure> figures_of(std::string_view decision) {
  if (decision == "cache") return kCacheFigures;
  return kServingFigures;
}

struct Row {
  std::string name;
  std::vector<std::string> assignments;
};

/// "hexgen:alpha=0.5" as assignments to the decision's block.
Row rule_row(const std::string& decision, const std::string& text) {
  Row row{text, {}};
  std::size_t at = text.find(':');
  const std::string name = text.substr(0, at);
  row.assignments.push_back(fmt::format("policies.{}.policy={}", decision, name));
  while (at != std::string::npos) {
    const std::size_t next = text.find(':', at + 1);
    row.assignments.push_back(fmt::format("policies.{}.{}.{}", decision, name, text.substr(at + 1, next - at - 1)));
    at = next;
  }
  return row;
}

std::vector<std::string> rules_of(const Systems& systems, const std::string& decision) {
  const auto& all = *systems.registries();
  std::vector<std::string> names = decision == "routing"     ? all.get<policies::RouterRegistry>().names()
                                   : decision == "admission" ? all.get<policies::AdmissionRegistry>().names()
                                   : decision == "scaling"   ? all.get<policies::ScalingRegistry>().names()
                                   : decision == "power"     ? all.get<policies::ClockRegistry>().names()
                                   : decision == "cache"     ? all.get<policies::ExpertCacheRegistry>().names()
                                                             : all.get<policies::BatchingRegistry>().names();
  std::erase(names, "learned");
  std::erase(names, "expression");
  return names;
}

Node base_config(const PolicyFile& policy, const PlayOptions& options) {
  Node root;
  if (options.config.empty()) {
    const Node *file = policy.env_params.find("config"), *over = policy.env_params.find("override");
    root = serving_config_of(policy.env, file != nullptr && file->is_string() ? file->as_string() : "",
                             over != nullptr ? *over : Node{});
  } else {
    root = sim::read_config(options.config);
  }
  for (const std::string& assignment : options.assignments) sim::assign(root, assignment);
  return root;
}

Node head_of(const PolicyFile& policy) {
  Node node = Node::object();
  node.set("policy", Node::string(policy.path.string()));
  node.set("env", Node::string(policy.env));
  node.set("learner", *policy.learner.find("policy"));
  node.set("steps", Node::integer(policy.steps));
  node.set("seed", Node::integer(policy.seed));
  return node;
}

Node played_rows(const Systems& systems, const PolicyFile& policy, const std::string& decision,
                 const PlayOptions& options) {
  Node root = base_config(policy, options);
  std::vector<Row> rows{
      {"learned",
       {fmt::format("policies.{}.policy=learned", decision),
        fmt::format("policies.{}.learned.file={}", decision, std::filesystem::absolute(policy.path).string())}}};
  std::vector<std::string> against = options.against;
  const bool every = against.size() == 1 && against[0] == "all";  // then what cannot run is a row with its reason
  if (every) against = rules_of(systems, decision);
  if (against.empty()) rows.push_back({"own", {}});
  for (const std::string& rule : against) rows.push_back(rule_row(decision, rule));

  const std::span<const Figure> figures = figures_of(decision);
  const auto seeds = static_cast<std::size_t>(options.seeds);
  std::vector<std::vector<double>> values(rows.size() * figures.size(), std::vector<double>(seeds, std::nan("")));
  std::vector<std::string> reasons(rows.size());
  std::mutex mutex;
  std::exception_ptr error;
  std::int64_t done = 0;
  parallel_for(rows.size() * seeds, options.jobs, [&](std::size_t i) {
    const std::size_t row = i / seeds, seed = i % seeds;
    {
      const std::lock_guard lock(mutex);
      if (error) return;
    }
    try {
      Node config = root;
      for (const std::string& assignment : rows[row].assignments) sim::assign(config, assignment);
      sim::assign(config, fmt::format("run.seed={}", options.seed + static_cast<std::int64_t>(seed)));
      if (decision != "cache") sim::assign(config, "run.timeline.enabled=false");  // system experts draws none
      const Outcome outcome = read_experiment(systems, config)->run({});
      const std::lock_guard lock(mutex);
      if (const Node* reason = outcome.summary.find("reason"); !outcome.feasible() && reason != nullptr)
        reasons[row] = reason->is_string() ? reason->as_string() : "infeasible";
      for (std::size_t f = 0; f < figures.size(); ++f) {
        const Node* found = claims::find_figure(outcome.summary, figures[f].path).found;
        if (found != nullptr && found->is_number()) values[row * figures.size() + f][seed] = found->as_number();
      }
    } catch (const sim::ConfigError& fault) {
      const std::lock_guard lock(mutex);
      if (every && row > 0)
        reasons[row] = fault.faults().front().message;
      else if (!error)
        error = std::current_exception();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    ++done;
    if (!options.progress || error) return;
    try {
      options.progress({.done = done, .total = static_cast<std::int64_t>(rows.size() * seeds), .what = "runs"});
    } catch (...) {  // somebody stops it
      error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);

  Node all = Node::array();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    Node one = Node::object();
    one.set("name", Node::string(rows[row].name));
    if (!reasons[row].empty()) one.set("reason", Node::string(reasons[row]));
    Node by_path = Node::object();
    for (std::size_t f = 0; f < figures.size(); ++f) {
      const std::vector<double>& own = values[row * figures.size() + f];
      Node figure = quartile_figures(own);
      std::int64_t better = 0;  // seeds in which the learned policy is
      for (std::size_t s = 0; s < seeds; ++s) better += figures[f].less ? values[f][s] < own[s] : values[f][s] > own[s];
      if (row > 0) figure.set("learned_better", Node::integer(better));
      by_path.set(figures[f].path, std::move(figure));
    }
    one.set("figures", std::move(by_path));
    all.push(std::move(one));
  }
  return all;
}

Node played_episodes(const Systems& systems, const PolicyFile& policy, const PlayOptions& options) {
  sim::Faults faults;
  const auto choice =
      systems.registry<EnvRegistry>().prepare(policy.env, &policy.env_params, {policy.path.string(), ""}, faults);
  faults.throw_if_any();
  const auto env = env_factory(choice, systems)();
  const auto learner = learner_of(policy, env->spec(), systems.registry<LearnerRegistry>());
  constexpr std::int64_t kSteps = 1'000'000;  // an episode that never ends is cut there
  const Played played =
      play_episodes(*env, *learner, options.episodes, kSteps, static_cast<std::uint64_t>(options.seed));
  Node node = Node::object();
  node.set("episodes", Node::integer(options.episodes));
  node.set("return", Node::real(played.returned));
  node.set("length", Node::real(played.length));
  for (std::size_t i = 0; i < played.info.size(); ++i)
    node.set(env->spec().info[i], std::isnan(played.info[i]) ? Node{} : Node::real(played.info[i]));
  return node;
}

Node looked_at(const Systems& systems, const PolicyFile& policy, const PlayOptions& options) {
  const StepLog log = read_step_logs(options.logs, policy.spec);
  const auto learner = learner_of(policy, log.spec(), systems.registry<LearnerRegistry>());
  const Looks found = what_it_looks_at(*learner, log, static_cast<std::uint64_t>(options.seed));
  Node node = Node::object();
  node.set("agrees", Node::real(found.agrees));
  Node& entries = node.set("changed", Node::object());
  for (const Look& look : found.looks) entries.set(look.entry, Node::real(look.changed));
  return node;
}

std::string shown(const Node& figure) {
  const Node* median = figure.find("p50");
  return median != nullptr && median->is_number() ? fmt::format("{:.4g}", median->as_number()) : "-";
}

}  // namespace

Node play(const Systems& systems, const PlayOptions& options) {
  const PolicyFile policy = read_policy(options.policy);
  Node node = head_of(policy);
  if (!options.logs.empty()) {
    if (!options.config.empty() || !options.against.empty() || !options.assignments.empty())
      sim::throw_fault({options.policy.string(), ""}, "--log shows what a policy looks at, and runs nothing",
                       "without --log it is held against rules");
    node.set("looks", looked_at(systems, policy, options));
    return node;
  }
  const std::string decision = decision_of(policy.env);
  const bool needs_config = decision == "cache";  // its environment has none
  if (needs_config && options.config.empty() && !options.against.empty())
    sim::throw_fault({options.policy.string(), ""},
                     "expected a config of system experts to hold the policy against rules",
                     "`orrery play FILE CONFIG --against ...`");
  if (decision.empty() || (needs_config && options.config.empty())) {
    if (!options.config.empty() || !options.against.empty())
      sim::throw_fault({options.policy.string(), ""},
                       fmt::format("a policy of the environment '{}' takes no decision of a run", policy.env),
                       "`orrery play FILE` alone plays its episodes");
    node.set("episodes", played_episodes(systems, policy, options));
    return node;
  }
  node.set("decision", Node::string(decision));
  node.set("seeds", Node::integer(options.seeds));
  node.set("rows", played_rows(systems, policy, decision, options));
  return node;
}

std::string play_text(const Node& played) {
  std::string text = fmt::format("{} by {}, {} steps (seed {})\n", played.find("env")->as_string(),
                                 played.find("learner")->as_string(), played.find("steps")->as_integer(),
                                 played.find("seed")->as_integer());
  if (const Node* looks = played.find("looks"); looks != nullptr) {
    text += fmt::format("does what the log did at {:.1f} % of its steps\n\n{:<32}{:>18}\n",
                        100 * looks->find("agrees")->as_number(), "with another's", "other decisions, %");
    for (const auto& [entry, changed] : looks->find("changed")->members())
      text += fmt::format("{:<32}{:>18.1f}\n", entry, 100 * changed.as_number());
    return text;
  }
  if (const Node* episodes = played.find("episodes"); episodes != nullptr) {
    for (const auto& [name, value] : episodes->members())
      text += fmt::format("{:<14}{}\n", name, value.is_number() ? fmt::format("{:.6g}", value.as_number()) : "-");
    return text;
  }
  text += fmt::format("medians of {} seeds; in brackets in how many of them the learned policy is better\n\n{:<24}",
                      played.find("seeds")->as_integer(), "policies." + played.find("decision")->as_string());
  const std::span<const Figure> figures = figures_of(played.find("decision")->as_string());
  for (const Figure& figure : figures) text += fmt::format("{:>16}", figure.name);
  text += '\n';
  for (const Node& row : played.find("rows")->items()) {
    text += fmt::format("{:<24}", row.find("name")->as_string());
    for (const Figure& figure : figures) {
      const Node& of_it = *row.find("figures")->find(figure.path);
      const Node* better = of_it.find("learned_better");
      text += fmt::format("{:>16}", better != nullptr && shown(of_it) != "-"
                                        ? fmt::format("{} ({})", shown(of_it), better->as_integer())
                                        : shown(of_it));
    }
    if (const Node* reason = row.find("reason"); reason != nullptr) text += "  " + reason->as_string();
    text += '\n';
  }
  return text;
}

}  // namespace orrery::experiments::rl
