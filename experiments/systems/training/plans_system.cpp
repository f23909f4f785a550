#include "experiments/systems/training/plans_system.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "experiments/base/config_experiment.hpp"
#include "experiments/base/figure_table.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/systems/training/launch_flags.hpp"
#include "experiments/systems/training/plan_text.hpp"
#include "experiments/systems/training/planner.hpp"

namespace orrery::experiments {
namespace training {
namespace {

using sim::Node;

struct PlannerSections : TrainingParams {
  PlannerParams plans;
  static constexpr auto fields() {
    return sim::joined(sim::inherited<PlannerSections>(TrainingParams::fields()),
                       sim::FieldTable{sim::section("plans", &PlannerSections::plans,
                                                    "Which plans are considered, and how they are ranked.")});
  }
};

struct PlanSource {
  const TrainingConfig& config;
  const ScoredPlan& plan;
  std::int64_t layers = 0;  ///< of the model
  std::int64_t stage_layers(std::int64_t s) const {
    if (!plan.layers.empty()) return plan.layers[static_cast<std::size_t>(s)];
    return even_layers(layers, plan.plan.pipeline, s);
  }
  /// A number of each stage, with strokes between.
  template <class Of>
  std::string by_stage(Of of) const {
    std::vector<std::int64_t> all;
    for (std::int64_t s = 0; s < plan.plan.pipeline; ++s) all.push_back(of(s));
    return fmt::format("{}", fmt::join(all, "|"));
  }
  std::string layers_text() const {
    return by_stage([&](std::int64_t s) { return stage_layers(s); });
  }
  std::string again_text() const {
    return by_stage([&](std::int64_t s) { return plan.plan.again(s, stage_layers(s)); });
  }
  double tokens_per_s() const {
    const WorkloadParams& w = config.params.workload;
    return static_cast<double>(w.global_batch) * static_cast<double>(w.sequence) / plan.step_s();
  }
};

const FigureTable<PlanSource>& plan_table() {
  using S = PlanSource;
  static const FigureTable<S> table{
      {"{tensor_parallel,context_parallel,pipeline_parallel,data_parallel,expert_parallel,micro_batch,interleave}",
       "count", "Degrees of parallelism, micro-batch size and chunks per stage of the plan.",
       [](const S& s) { return s.plan.plan.tensor; }, [](const S& s) { return s.plan.plan.context; },
       [](const S& s) { return s.plan.plan.pipeline; }, [](const S& s) { return s.plan.plan.data; },
       [](const S& s) { return s.plan.plan.experts; }, [](const S& s) { return s.plan.plan.micro_batch; },
       [](const S& s) { return s.plan.plan.chunks; }},
      {"sequence_parallel", "", "Whether tensor-parallel ranks divide the tokens between the products of a layer.",
       [](const S& s) { return Node::boolean(s.plan.plan.sequence); }},
      {"{recompute,zero}", "", "Recomputation and ZeRO stage of the plan.",
       [](const S& s) { return std::string(sim::to_string(s.plan.plan.recompute)); },
       [](const S& s) { return std::string(sim::to_string(s.plan.plan.zero)); }},
      {"offload", "",
       "Shares in host memory, by stage or one for all (a0.5+o0.25|1): a, activations; o, optimizer states; g, "
       "gradients; w, weights. Empty: nothing.",
       [](const S& s) { return offload_text(s.plan.plan); }},
      {"{stage_layers,stage_recompute_layers}", "layers",
       "Layers of each stage, separated by strokes (13|11): all, and those with recomputation.",
       [](const S& s) { return s.layers_text(); }, [](const S& s) { return s.again_text(); }},
      {"stages_alike", "", "Whether layers are divided evenly and all stages do the same.",
       [](const S& s) { return Node::boolean(s.plan.layers.empty()); }},
      {"closed_form_s", "s", "Time of a step in closed form.", [](const S& s) { return s.plan.closed_s; }},
      {"tokens_per_s", "1/s", "Tokens of the whole batch per second.",
       [](const S& s) -> FigureValue {
         if (s.plan.step_s() <= 0) return std::nullopt;  // a plan that cannot be
         return s.tokens_per_s();
       }},
      {"memory_bytes", "B", "Memory of the fullest rank.", [](const S& s) { return s.plan.memory_bytes; }},
      {"host_bytes", "B", "What the ranks of the fullest node keep in host memory.",
       [](const S& s) { return s.plan.host_bytes; }},
      {"devices", "count", "Devices that the plan takes.", [](const S& s) { return s.plan.devices; }},
      {"energy_j", "J", "Energy of a step over all devices, in closed form.",
       [](const S& s) { return s.plan.energy_j; }},
      {"cost", "", "Cost of a step at workload.price; absent where that is 0.",
       [](const S& s) -> FigureValue {
         const double price = s.config.params.workload.price_per_hour;
         if (price <= 0) return std::nullopt;
         return s.plan.device_s() / 3600 * price;
       }},
      {"breakdown_s.{compute,recompute,collectives,bubble,gradients,optimizer}", "s",
       "Time of a step by cause, as in a training run; simulated where the plan was run, else in closed form.",
       [](const S& s) { return s.plan.times.compute_s; }, [](const S& s) { return s.plan.times.recompute_s; },
       [](const S& s) { return s.plan.times.collective_s; }, [](const S& s) { return s.plan.times.bubble_s; },
       [](const S& s) { return s.plan.times.gradients_s; }, [](const S& s) { return s.plan.times.optimizer_s; }}};
  return table;
}

/// Of a plan that was run.
const FigureTable<PlanSource>& run_table() {
  using S = PlanSource;
  static const FigureTable<S> table{
      {"iteration_s", "s", "Time of a step, simulated event by event.", [](const S& s) { return s.plan.time_s; }},
      {"bubble", "ratio", "Share of the step spent waiting for other stages (pipeline bubble).",
       [](const S& s) { return s.plan.times.bubble_s / s.plan.time_s; }}};
  return table;
}

std::vector<FigureInfo> run_plan_infos() {
  std::vector<FigureInfo> all = plan_table().infos();
  for (FigureInfo& info : run_table().infos()) all.push_back(std::move(info));
  return all;
}

Node run_plan(const PlanSource& source) {
  Node node = plan_table().written(source);
  const Node ran = run_table().written(source);
  for (const auto& [name, value] : ran.members()) node.set(name, value);
  return node;
}

struct ResultSource {
  const TrainingConfig& config;
  const PlannerResult& result;
  std::string asked;  ///< the plan that is explained, as it was asked
};

std::vector<FigureInfo> explained_infos() {
  std::vector<FigureInfo> all = run_plan_infos();
  all.push_back({"reason", "", "Why the plan is not possible; absent if it is."});
  return all;
}

Node explained(const ResultSource& of, const ExplainedPlan& asked) {
  const PlanSource source{of.config, asked.plan, of.result.layers};
  Node node = asked.plan.time_s > 0 ? run_plan(source) : plan_table().written(source);
  if (!asked.reason.empty()) node.set("reason", Node::string(asked.reason));
  return node;
}

FigureValue flags(const ResultSource& source, std::vector<std::string> (*of)(const Plan&, const LaunchedModel&)) {
  if (source.result.best.empty()) return std::nullopt;
  const WorkloadParams& w = source.config.params.workload;
  const ScoredPlan& best = source.result.best.front();
  std::string line;
  for (const std::string& flag : of(best.plan, {w.global_batch, w.sequence, source.result.layers, best.layers}))
    line += (line.empty() ? "" : " ") + flag;
  return line;
}

const FigureTable<ResultSource>& result_table() {
  using S = ResultSource;
  static const FigureTable<S> table{
      {"status", "", "`ok`, or `infeasible` where no plan fits.",
       [](const S& s) { return std::string(s.result.best.empty() ? "infeasible" : "ok"); }},
      {"reason", "", "Why no plan fits.",
       [](const S& s) -> FigureValue {
         if (!s.result.best.empty()) return std::nullopt;
         std::string why = "no plan of the space fits";
         for (const auto& [reason, count] : s.result.left_out) why += fmt::format("; {}: {}", count, reason);
         return why;
       }},
      {"evaluated", "count", "Plans whose time and memory were computed.",
       [](const S& s) { return s.result.evaluated; }},
      {"left_out.*", "count", "Plans that are not possible, by reason.",
       [](const S& s) {
         Node counts = Node::object();
         for (const auto& [reason, count] : s.result.left_out) counts.set(reason, Node::integer(count));
         return counts;
       }},
      {"training_plans.*", run_plan_infos(),
       [](const S& s) -> FigureValue {
         if (s.result.best.empty()) return std::nullopt;
         Node list = Node::array();
         for (const ScoredPlan& plan : s.result.best) list.push(run_plan({s.config, plan, s.result.layers}));
         return list;
       }},
      {"kinds.*", plan_table().infos(),
       [](const S& s) {
         Node kinds = Node::object();
         for (const auto& [name, plan] : s.result.kinds)
           kinds.set(name, plan_table().written({s.config, plan, s.result.layers}));
         return kinds;
       }},
      {"objectives.*", plan_table().infos(),
       [](const S& s) {
         Node bests = Node::object();
         for (const auto& [name, plan] : s.result.objectives)
           bests.set(name, plan_table().written({s.config, plan, s.result.layers}));
         return bests;
       }},
      {"nearest.*", plan_table().infos(),
       [](const S& s) {
         Node nearest = Node::object();
         for (const auto& [reason, plan] : s.result.nearest)
           nearest.set(reason, plan_table().written({s.config, plan, s.result.layers}));
         return nearest;
       }},
      {"explained.*", explained_infos(),
       [](const S& s) -> FigureValue {
         if (!s.result.explained) return std::nullopt;
         Node asked = Node::object();
         asked.set(s.asked, explained(s, *s.result.explained));
         return asked;
       }},
      {"flags.{megatron,torchtitan}", "", "The best plan as arguments of Megatron-LM and of torchtitan.",
       [](const S& s) { return flags(s, megatron_flags); }, [](const S& s) { return flags(s, torchtitan_flags); }}};
  return table;
}

class TrainingPlansExperiment final : public ConfigExperiment {
 public:
  TrainingPlansExperiment(TrainingConfig config, PlannerParams params, SharedRegistries registries, Node resolved)
      : config_(std::move(config)), params_(std::move(params)), registries_(std::move(registries)) {
    resolved_ = std::move(resolved);
    inputs_ = config_.inputs;
    seed_ = config_.params.run.seed;
  }

  std::vector<std::pair<std::string, std::string>> restated() const override {
    return {{"model", config_.model.forward.name},
            {"machine", devices_text(config_.machine)},
            {"batch", fmt::format("{} sequences of {} tokens", config_.params.workload.global_batch,
                                  config_.params.workload.sequence)}};
  }

  Outcome run(const RunSink& sink) const override {
    PlannerResult result;
    priced_or_fault(config_.file, [&] { result = find_plans(config_, params_, *registries_, sink.progress); });
    if (sink.folder) write_plans(*sink.folder / "plans.csv", result);
    return {.summary = result_table().written({config_, result, params_.explain}),
            .events = static_cast<std::uint64_t>(result.evaluated),
            .notes = config_.notes};
  }

 private:
  void write_plans(const std::filesystem::path& path, const PlannerResult& result) const {
    BufferedFile file(path);
    file.buffer() +=
        "tensor_parallel,context_parallel,pipeline_parallel,data_parallel,expert_parallel,micro_batch,interleave,"
        "sequence_parallel,recompute,zero,offload,stage_layers,stage_recompute_layers,devices,closed_form_s,iteration_"
        "s,energy_j,memory_bytes\n";
    file.line_done();
    for (const ScoredPlan& scored : result.best) {
      const Plan& p = scored.plan;
      const PlanSource source{config_, scored, result.layers};
      append(file.buffer(), "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.9g},{:.9g},{:.9g},{}\n", p.tensor, p.context,
             p.pipeline, p.data, p.experts, p.micro_batch, p.chunks, p.sequence ? 1 : 0, sim::to_string(p.recompute),
             sim::to_string(p.zero), offload_text(p), source.layers_text(), source.again_text(), scored.devices,
             scored.closed_s, scored.time_s, scored.energy_j, scored.memory_bytes);
      file.line_done();
    }
    file.close();
  }

  TrainingConfig config_;
  PlannerParams params_;
  SharedRegistries registries_;
};

}  // namespace
}  // namespace training

/// Combinations of shares in the host's memory, each tried with every plan.
constexpr int kMostShares = 1024;

System training_plans_system() {
  return {
      .name = "training_plans",
      .doc = "Every training plan for a model on a machine: the best by time or memory, and why others do not fit.",
      .fields = describe_sections<training::PlannerSections>,
      .figures = training::result_table().infos(),
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        sim::Node own = root;
        own.erase("plans");
        if (sim::Node* plan = own.find("plan"); plan != nullptr && plan->is_object()) plan->erase("best_by");
        training::TrainingConfig config = training::read_training_config(own, *systems.registries(), faults, true);
        const sim::Node node = section(root, "plans");
        const auto params = sim::parse_params<training::PlannerParams>(node, *systems.registries(), faults);
        if (config.params.workload.largest_batch)
          faults.add(place_of(section(root, "workload"), "largest_batch"),
                     "expected false: micro-batches are among what plans differ in");
        if (!config.params.machine.clusters.empty())
          faults.add(place_of(section(root, "machine"), "clusters"),
                     "expected none: plans are compared on equal nodes");
        if (!config.params.machine.slow.empty())
          faults.add(place_of(section(root, "machine"), "slow_nodes"),
                     "expected none: plans are compared on equal nodes");
        double combinations = 1;
        for (const auto& [letter, name, of] : training::kOffloadFields) {
          if (!config.machine.host_link && training::any_share(params.*of))
            faults.add(place_of(node, name), "expected machine.host_link, which leads to the host's memory");
          combinations *= std::max<double>(1, static_cast<double>((params.*of).size()));
        }
        if (combinations > kMostShares)
          faults.add(place_of(node, "offload_weights"),
                     fmt::format("expected at most {} combinations of shares in host memory, got {:.0f}", kMostShares,
                                 combinations));
        if (config.params.machine.allocator != training::Allocator::none)
          faults.add(place_of(section(root, "machine"), "allocator"),
                     "expected none: plans are compared by their tensors, a run of one says what is reserved");
        if (config.params.plan.by_stage())
          faults.add(place_of(section(root, "plan"), config.params.plan.listed()),
                     "expected one share for all stages where the plan offloads: plans differ in stages");
        if (!params.explain.empty()) try {
            (void)training::parse_plan(params.explain);
          } catch (const std::invalid_argument& error) {
            faults.add(place_of(node, "explain"), error.what(), "8 8x3 1 1 yes selective none");
          }
        faults.throw_if_any();
        sim::Node resolved = config.resolved;
        resolved.set("system", sim::Node::string("training_plans"));
        resolved.set("plans", sim::write_params(params));
        return std::make_unique<training::TrainingPlansExperiment>(std::move(config), params, systems.registries(),
                                                                   std::move(resolved));
      }};
}

}  // namespace orrery::experiments
