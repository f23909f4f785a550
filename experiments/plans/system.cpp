#include "experiments/plans/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "experiments/base/catalog.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/run_folder.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/capacity/serving_question.hpp"
#include "experiments/capacity/steady_run.hpp"
#include "experiments/capacity/system.hpp"
#include "experiments/plans/plan.hpp"
#include "sim/base/name_match.hpp"

namespace orrery::experiments {
namespace plans {
namespace {

using sim::Node;

/// The replicas of a plan, as in cluster.replicas.
Node groups_of(const Plan& plan) {
  if (!plan.mix.empty()) return plan.groups;
  Node group = Node::object();
  group.set("count", Node::integer(plan.replicas));
  group.set("tensor_parallel", Node::integer(plan.tp));
  group.set("pipeline_parallel", Node::integer(plan.pp));
  group.set("data_parallel", Node::integer(plan.lanes));
  group.set("expert_parallel", Node::integer(plan.ep));
  Node groups = Node::array();
  groups.push(std::move(group));
  return groups;
}

/// The serving (or capacity) config of a plan.
Node config_of(const Plan& plan, const Node& base, bool capacity) {
  Node root = base;
  root.erase("plans");
  if (!capacity) root.erase("capacity");
  if (capacity) sim::assign(root, "capacity.suggest", Node::boolean(false));  // another plan is the suggestion
  root.set("system", Node::string(capacity ? "capacity" : "serving"));
  const auto set = [&](std::string_view path, Node value) {
    value.set_origin(base.origin_at(path));
    sim::assign(root, path, value);
  };
  set("machine.devices.0.part", Node::string(plan.part));
  set("machine.devices.0.count", Node::integer(plan.devices));
  if (plan.clock_hz)
    set("machine.devices.0.clock", Node::string(sim::format_quantity(*plan.clock_hz, sim::Unit::hertz)));
  set("policies.batching.policy", Node::string(plan.batching));
  set("model.dtype", Node::string(plan.dtype));
  Node cluster = Node::object();
  cluster.set("replicas", groups_of(plan));
  if (const Node* own = base.find("cluster"))
    for (const auto& [key, value] : own->members())
      if (key != "replicas") cluster.set(key, value);
  set("cluster", std::move(cluster));
  return root;
}

/// Summary of a plan at the workload's own rate, or at its capacity; status and reason go to the plan.
Node measured(Plan& plan, const Systems& systems, const Node& base, const PlansParams& params) {
  const bool at_capacity = params.capacity;
  const Node config = config_of(plan, base, at_capacity);
  Node summary;
  capacity::SteadyRun run;
  if (at_capacity) {
    summary = read_experiment(systems, config)->run({}).summary;
  } else {
    run = params.once ? capacity::run_once(config, systems) : capacity::run_steady(config, systems);
    summary = run.summary;
  }
  plan.status = summary.find("status")->as_string();
  if (const Node* reason = summary.find("reason"); reason != nullptr && reason->is_string())
    plan.reason = reason->as_string();
  if (const Node* target = summary.at("binds.target"))
    plan.binds = fmt::format("{} ({})", target->as_string(), summary.at("binds.cause")->as_string());
  if (!at_capacity) {
    if (run.load != capacity::LoadState::steady) {
      plan.status = sim::to_string(run.load);
      plan.reason = run.reason;
    }
    return summary;
  }
  plan.capacity = figure(summary, "capacity_per_s");
  const Node* scale = base.at("workload.rate_scale");
  plan.rate = figure(summary, "nominal_rate_per_s") * (scale != nullptr && scale->is_number() ? scale->as_number() : 1);
  if (plan.status == "bound_meets") plan.status = "ok";
  const Node* there = summary.find("at_capacity");
  return there != nullptr ? *there : Node::object();
}

void evaluate(Plan& plan, const Systems& systems, const Node& base, const PlansParams& params) {
  Node summary;
  try {
    summary = measured(plan, systems, base, params);
  } catch (const sim::ConfigError& error) {  // the base is sound: a clock or format that this part has not
    plan.status = "infeasible";
    plan.reason = error.faults().front().text();
    return;
  }
  if (plan.status == "infeasible") return;
  plan.tpot = figure(summary, "tpot_s.mean");
  plan.e2e = figure(summary, "e2e_s.mean");
  plan.ttft_p99 = figure(summary, "ttft_s.p99");
  plan.tbt_p99 = figure(summary, "tbt_s.p99");
  plan.tokens_per_s = figure(summary, "throughput.output_tokens_per_s");
  plan.requests_per_s = figure(summary, "throughput.requests_per_s");
  plan.energy_per_token = figure(summary, "energy_per_output_token_j");
  plan.attainment = figure(summary, "slo.attainment");
  if (plan.capacity > 0) plan.fleet_devices = static_cast<double>(plan.devices) * std::ceil(plan.rate / plan.capacity);
  if (!plan.price) return;
  plan.fleet_cost = *plan.price * plan.fleet_devices;
  const Cost cost = cost_of(params, *plan.price, plan.devices, summary);
  plan.cost_per_million = cost.per_million_output;
  plan.input_cost = cost.input_share_per_million;
  plan.output_cost = cost.output_share_per_million;
  if (params.electricity_per_kwh) plan.energy_cost_share = cost.energy_share;
}

/// A plan is on the front if no other is as good in every objective and better in one. Quadratic, on few plans.
void mark_front(std::vector<Plan>& plans, const std::vector<Objective>& objectives) {
  const auto beats = [&](const Plan& a, const Plan& b) {
    bool better = false;
    for (const Objective objective : objectives) {
      if (std::isnan(a.score(objective)) && std::isnan(b.score(objective))) continue;  // told of neither
      if (!(a.score(objective) <= b.score(objective))) return false;
      better = better || a.score(objective) < b.score(objective);
    }
    return better;
  };
  for (Plan& plan : plans)
    plan.front = plan.status == "ok" && std::none_of(plans.begin(), plans.end(), [&](const Plan& other) {
                   return other.status == "ok" && beats(other, plan);
                 });
}

Node number_or_null(double value) {
  return std::isnan(value) ? Node{} : Node::real(value);
}

Node plan_node(const Plan& plan) {
  Node node = Node::object();
  node.set("part", Node::string(plan.part));
  node.set("devices", Node::integer(plan.devices));
  const auto of_equal = [&](std::int64_t value) { return plan.mix.empty() ? Node::integer(value) : Node{}; };
  node.set("mix", plan.mix.empty() ? Node{} : Node::string(plan.mix));
  node.set("tensor_parallel", of_equal(plan.tp));
  node.set("pipeline_parallel", of_equal(plan.pp));
  node.set("data_parallel", of_equal(plan.lanes));
  node.set("expert_parallel", of_equal(plan.ep));
  node.set("replicas", Node::integer(plan.replicas));
  node.set("batching", Node::string(plan.batching));
  node.set("dtype", Node::string(plan.dtype));
  node.set("clock_hz", plan.clock_hz ? Node::real(*plan.clock_hz) : Node{});
  node.set("status", Node::string(plan.status));
  node.set("reason", plan.reason.empty() ? Node{} : Node::string(plan.reason));
  node.set("e2e_s", number_or_null(plan.e2e));
  node.set("tpot_s", number_or_null(plan.tpot));
  node.set("ttft_p99_s", number_or_null(plan.ttft_p99));
  node.set("tbt_p99_s", number_or_null(plan.tbt_p99));
  node.set("requests_per_s", number_or_null(plan.requests_per_s));
  node.set("output_tokens_per_s", number_or_null(plan.tokens_per_s));
  node.set("energy_per_output_token_j", number_or_null(plan.energy_per_token));
  node.set("cost_per_million_tokens", number_or_null(plan.cost_per_million));
  node.set("cost_per_million_input", number_or_null(plan.input_cost));
  node.set("cost_per_million_output", number_or_null(plan.output_cost));
  node.set("energy_cost_share", number_or_null(plan.energy_cost_share));
  node.set("fleet_devices", number_or_null(plan.fleet_devices));
  node.set("fleet_cost_per_hour", number_or_null(plan.fleet_cost));
  node.set("attainment", number_or_null(plan.attainment));
  node.set("capacity_per_s", number_or_null(plan.capacity));
  node.set("binds", plan.binds.empty() ? Node{} : Node::string(plan.binds));
  node.set("pareto", Node::boolean(plan.front));
  return node;
}

/// A node's members as a CSV line; nothing in them needs quotes but the reason and the mix.
void write_csv(const std::filesystem::path& path, const std::vector<Plan>& plans) {
  std::string text;
  for (const Plan& plan : plans) {
    const Node node = plan_node(plan);
    if (text.empty()) {
      for (const auto& [key, value] : node.members()) text += (text.empty() ? "" : ",") + key;
      text += '\n';
    }
    std::string line;
    for (const auto& [key, value] : node.members()) {
      if (&key != &node.members().front().first) line += ',';
      if (value.is_null()) continue;
      line += value.is_string() && key != "reason" && key != "mix" ? value.as_string() : value.dump();
    }
    text += line + '\n';
  }
  write_text(path, text);
}

/// The sections of its config.
struct PlansSections : capacity::CapacitySections {
  PlansParams plans;

  static constexpr auto fields() {
    using S = PlansSections;
    return sim::joined(
        sim::inherited<S>(capacity::CapacitySections::fields()),
        sim::FieldTable{sim::section("plans", &S::plans, "What plans are built from, and how they are compared.")});
  }
};

class PlansExperiment final : public capacity::ServingQuestion {
 public:
  PlansExperiment(Node root, Systems systems, ServingConfig config, PlansParams params)
      : ServingQuestion(std::move(config), "plans", sim::write_params(params)),
        root_(std::move(root)),
        systems_(std::move(systems)),
        params_(std::move(params)) {
    if (const Node* own = root_.find("capacity")) resolved_.set("capacity", *own);
  }
  Node identity() const override {
    Node node = ServingQuestion::identity();
    Node own = sim::write_params(params_);
    own.erase("jobs");
    node.set("plans", std::move(own));
    if (const Node* search = root_.find("capacity")) node.set("capacity", *search);
    return node;
  }

  /// What plans change stands for the config's machine.
  std::vector<std::pair<std::string, std::string>> restated() const override {
    auto lines = ServingQuestion::restated();
    for (auto& [what, text] : lines)
      if (what == "machine") text = machines();
    return lines;
  }

  Outcome run(const RunSink& sink) const override {
    std::vector<Plan> plans = enumerate(params_, root_, config_);
    evaluate_all(plans, sink);
    mark_front(plans, params_.objectives);
    Outcome outcome;
    outcome.summary = summary(plans);
    if (sink.folder) write_csv(*sink.folder / "plans.csv", plans);
    return outcome;
  }

 private:
  /// "4 or 8 x h100-sxm5-80gb or a100-sxm4-80gb".
  std::string machines() const {
    const auto either = [](const auto& list, const auto& text) {
      std::string out;
      for (const auto& one : list) out += (out.empty() ? "" : " or ") + text(one);
      return out;
    };
    const DeviceGroup& own = config_.machine.devices.front();
    const std::string devices = either(params_.devices, [](std::int64_t count) { return fmt::format("{}", count); });
    const std::string parts = either(params_.parts, [](const PartParams& part) { return part.part; });
    return fmt::format("{} x {}", devices.empty() ? fmt::format("{}", own.count) : devices,
                       parts.empty() ? own.part : parts);
  }

  /// Rows keep their order, whichever thread makes them; what a thread throws is thrown for the first such row.
  void evaluate_all(std::vector<Plan>& plans, const RunSink& sink) const {
    std::atomic<std::size_t> next{0};
    std::vector<std::exception_ptr> errors(plans.size());
    std::mutex mutex;
    std::int64_t done = 0;
    const auto worker = [&] {
      for (std::size_t i = next++; i < plans.size(); i = next++) {
        try {
          evaluate(plans[i], systems_, root_, params_);
          const std::lock_guard lock(mutex);
          if (sink.progress) sink.progress({++done, std::ssize(plans), 0, "plans"});
        } catch (...) {
          errors[i] = std::current_exception();
          next = plans.size();
        }
      }
    };
    {
      std::vector<std::jthread> threads;
      for (std::int64_t i = 1; i < params_.jobs; ++i) threads.emplace_back(worker);
      worker();
    }
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
  }

  /// The plan that a rule of thumb gives: as much tensor parallelism as the devices allow, rows in order.
  static const Plan* widest(const std::vector<Plan>& plans) {
    const Plan* best = nullptr;
    for (const Plan& plan : plans)
      if (plan.ran() && plan.mix.empty() && (best == nullptr || plan.tp > best->tp)) best = &plan;
    return best;
  }

  /// By `rank`, of those that can take the load; where there are none, of those whose figures are of no more than the
  /// requests that were sent.
  const Plan* best_of(const std::vector<Plan>& plans) const {
    const auto better = [&](const Plan& a, const Plan& b) {
      if ((a.status == "ok") != (b.status == "ok")) return a.status == "ok";
      return a.score(params_.rank) < b.score(params_.rank);
    };
    const Plan* best = nullptr;
    for (const Plan& plan : plans)
      if (plan.ran() && (best == nullptr || better(plan, *best))) best = &plan;
    return best;
  }

  Node summary(const std::vector<Plan>& plans) const {
    Node root = Node::object();
    const Plan* best = best_of(plans);
    const auto feasible = std::count_if(plans.begin(), plans.end(), [](const Plan& plan) { return plan.ran(); });
    root.set("status", Node::string(best != nullptr ? best->status : "infeasible"));
    if (best == nullptr)
      root.set("reason", Node::string(plans.empty() ? "no combination of the lists uses the devices"
                                                    : "no plan is feasible; the first: " + plans.front().reason));
    else if (best->status != "ok")
      root.set("reason", Node::string("no plan is known to take the load; the best: " + best->reason));
    if (!params_.currency.empty()) root.set("currency", Node::string(params_.currency));
    root.set("plan_count", Node::integer(std::ssize(plans)));
    root.set("feasible", Node::integer(feasible));
    if (best != nullptr) root.set("best", plan_node(*best));
    if (const Plan* plan = widest(plans)) root.set("widest", plan_node(*plan));
    Node list = Node::array();
    for (const Plan& plan : plans) list.push(plan_node(plan));
    root.set("plans", std::move(list));
    return root;
  }

  Node root_;
  Systems systems_;
  PlansParams params_;
};

/// Names that stand for nothing anywhere: a slip of the pen, not a plan that does not fit.
void check_names(std::vector<std::string>& names, const std::vector<std::string>& known, const Node& list,
                 const char* what, sim::Faults& faults) {
  for (std::string& name : names) {
    name = sim::same_spelling(name, known);
    if (std::find(known.begin(), known.end(), name) == known.end())
      faults.add(list.origin(), fmt::format("unknown {} '{}'", what, name), sim::name_hint(name, known));
  }
}

/// Puts what the file says below what the section says, so that the resolved config needs no file.
void read_price_file(const Node& node, PlansParams& params, sim::Faults& faults) {
  const std::filesystem::path path = sim::folder_of(node.find("price_file")->origin()) / *params.price_file;
  try {
    const Prices file = read_prices(path.string());
    params.prices.insert(params.prices.begin(), file.prices.begin(), file.prices.end());
    if (params.currency.empty()) params.currency = file.currency;
    if (!params.electricity_per_kwh) params.electricity_per_kwh = file.electricity_per_kwh;
    params.price_file.reset();
  } catch (const sim::ConfigError& error) {
    for (const sim::Fault& fault : error.faults()) faults.add(fault.where, fault.message, fault.hint);
  }
}

void check_plans(const Node& node, PlansParams& params, const Systems& systems, sim::Faults& faults) {
  std::vector<std::string> dtypes;
  for (const auto& [name, dtype] : sim::names_of<hw::DType>) dtypes.emplace_back(name);
  if (const Node* list = node.find("batching"))
    check_names(params.batching.items, systems.registry<policies::BatchingRegistry>().names(), *list, "batching policy",
                faults);
  if (const Node* list = node.find("dtypes")) check_names(params.dtypes.items, dtypes, *list, "number format", faults);
  for (std::size_t i = 0; i < params.parts.size(); ++i)
    (void)part_file(params.parts[i].part, place_of(node.find("parts")->items()[i], "part"), faults);
  if (params.rank == Objective::cost && params.prices.empty())
    faults.add(place_of(node, "rank"), "expected prices to rank plans by cost", "plans.prices, or --price l40s=0.8");
  if (params.once && params.capacity)
    faults.add(place_of(node, "once"), "expected either 'once' or 'capacity': a job has no rate to raise");
  if (params.rank == Objective::capacity && !params.capacity)
    faults.add(place_of(node, "rank"), "expected capacities to rank plans by", "plans.capacity, or --capacity");
}

}  // namespace
}  // namespace plans

System plans_system() {
  System system;
  system.name = "plans";
  system.doc = "Simulates every plan of parts, parallelism, batching, formats and clocks, and finds the Pareto front.";
  system.fields = describe_sections<plans::PlansSections>;
  system.read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
    ServingConfig config = capacity::read_serving_part(root, {"plans", "capacity"}, systems, faults);
    const sim::Node node = section(root, "plans");
    auto params = sim::parse_params<plans::PlansParams>(node, *systems.registries(), faults);
    if (params.price_file && faults.empty()) plans::read_price_file(node, params, faults);
    if (faults.empty()) plans::check_plans(node, params, systems, faults);
    for (std::size_t i = 0; i < params.mixes.size(); ++i)
      for (const ReplicaGroupParams& group : params.mixes[i].replicas)
        if (group.device_group != 0)
          faults.add(root.at("plans.mixes")->items()[i].origin(),
                     "expected device_group 0 in every group: plans have one kind of device");
    if (params.capacity && faults.empty()) (void)capacity::read_capacity(root, config, faults);
    if (config.machine.devices.size() != 1)
      faults.add(place_of(section(root, "machine"), "devices"), "expected one group of devices: plans change it");
    faults.throw_if_any();
    return std::make_unique<plans::PlansExperiment>(root, systems, std::move(config), std::move(params));
  };
  return system;
}

}  // namespace orrery::experiments
