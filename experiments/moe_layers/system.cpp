#include "experiments/moe_layers/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "experiments/base/config_experiment.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/figure_table.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/moe_layers/layer_times.hpp"
#include "experiments/moe_layers/machine_costs.hpp"
#include "experiments/systems/training/run.hpp"

namespace orrery::experiments {
namespace moe_layers {
namespace {

using sim::Node;

constexpr std::int64_t kMostLayers = 100'000, kMostTasks = 20'000'000;

struct GridParams {
  std::vector<std::int64_t> batch{1}, sequence{1024}, width{2048}, inner_ratio{4}, products{2};
  std::vector<double> factor{1.2}, imbalance{1};
  std::int64_t shared_by = 8, tensor = 8, layers = 2;
  static constexpr auto fields() {
    using sim::Unit;
    using G = GridParams;
    return sim::FieldTable{
        sim::field("batch", &G::batch, Unit::count, sim::between(1, 1 << 16), "Sequences per node."),
        sim::field("sequence", &G::sequence, Unit::tokens, sim::between(1, 1 << 24), "Tokens of a sequence."),
        sim::field("width", &G::width, Unit::count, sim::between(1, 1 << 20), "Width of a token (hidden size)."),
        sim::field("inner_ratio", &G::inner_ratio, Unit::none, sim::between(1, 64),
                   "Width inside an expert over the width of a token."),
        sim::field("products", &G::products, Unit::count, sim::between(1, 8),
                   "Matrix products of an expert: 2, or 3 for gated ones."),
        sim::field("factor", &G::factor, Unit::none, sim::between(0.01, 1e4),
                   "Expert rows for each token: choices times capacity."),
        sim::field("imbalance", &G::imbalance, Unit::ratio, sim::between(1, 1e4),
                   "Rows of the experts on the busiest node, for which all wait, over the mean of all nodes."),
        sim::field("shared_by", &G::shared_by, Unit::count, sim::between(1, 4096), "Ranks that split an expert."),
        sim::field("tensor", &G::tensor, Unit::count, sim::between(1, 4096), "Ranks that split attention."),
        sim::field("layers", &G::layers, Unit::layers, sim::between(1, 10'000), "Number of equal layers in a step.")};
  }
};

struct Sections {
  std::optional<CostParams> costs;
  std::optional<training::MachineParams> machine;
  GridParams layer;
  std::vector<ScheduleParams> schedules;
  PlainRunParams run;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{
        sim::field("costs", &S::costs,
                   "Cost lines of messages and products, as fitted on a machine; null: they are fitted to `machine`."),
        sim::field("machine", &S::machine, "Devices, nodes and host, as in training; null: costs are stated."),
        sim::section("layer", &S::layer, "Sizes of the layer; with lists, every combination is run."),
        sim::required(sim::field("schedules", &S::schedules,
                                 "Schedules by which the layers are run; the others are compared with the first.")),
        sim::section("run", &S::run, "Not used, as nothing is random.")};
  }
};

/// Of a schedule over all layers.
struct ScheduleResult {
  double seconds = 0, speedups = 0, closed_s = 0, furthest = 0, unlike = 0, chunks = 0;
};

struct Result {
  const Sections& params;
  const FittedCosts& costs;
  std::int64_t layers = 0;
  std::vector<ScheduleResult> schedules;
};

struct OneSchedule {
  const Result& all;
  const ScheduleResult& own;
  double of(double sum) const { return sum / static_cast<double>(all.layers); }
};

const FigureTable<OneSchedule>& schedule_table() {
  using O = OneSchedule;
  static const FigureTable<O> table{
      {"{step_s,closed_form_s}", "s",
       "Time of a step of all layers, mean over sizes: simulated, and by the closed form.",
       [](const O& o) { return o.of(o.own.seconds); }, [](const O& o) { return o.of(o.own.closed_s); }},
      {"speedup", "ratio", "Speed-up over the first schedule, mean over sizes.",
       [](const O& o) { return o.of(o.own.speedups); }},
      {"closed_form_error", "ratio",
       "Relative error of the closed form, (closed form - simulation) / simulation, furthest from 0 over all sizes.",
       [](const O& o) { return o.own.furthest; }},
      {"unlike_degrees", "ratio",
       "Share of sizes whose backward pass has a different number of chunks than the forward pass.",
       [](const O& o) { return o.of(o.own.unlike); }},
      {"chunks", "", "Chunks of the forward pass, mean over sizes.", [](const O& o) { return o.of(o.own.chunks); }}};
  return table;
}

Node written(const LinearCost& cost) {
  Node both = Node::object();
  both.set("start_s", Node::real(cost.start_s));
  both.set("each_s", Node::real(cost.each_s));
  return both;
}

const FigureTable<Result>& result_table() {
  using R = Result;
  static const FigureTable<R> table{
      {"status", "", "`ok`.", [](const R&) { return std::string("ok"); }},
      {"sizes", "", "Number of different layer sizes that were run.", [](const R& r) { return r.layers; }},
      {"costs.{exchange,gather,scatter,product,all_reduce}.{start_s,each_s}", "s",
       "Cost lines: time of a message (gradient reduction too) and of each element in it; time of a product and of "
       "each multiplication in it.",
       [](const R& r) { return written(r.costs.costs.exchange); },
       [](const R& r) { return written(r.costs.costs.gather); },
       [](const R& r) { return written(r.costs.costs.scatter); },
       [](const R& r) { return written(r.costs.costs.product); },
       [](const R& r) { return written(r.costs.costs.all_reduce); }},
      {"costs.fit_error", "ratio",
       "Largest relative error of these lines on the data that they are fitted to; 0 if costs are stated.",
       [](const R& r) { return r.costs.furthest; }},
      {"schedules.*", schedule_table().infos(), [](const R& r) {
         Node all = Node::object();
         for (std::size_t i = 0; i < r.schedules.size(); ++i)
           all.set(r.params.schedules[i].name, schedule_table().written(OneSchedule{r, r.schedules[i]}));
         return all;
       }}};
  return table;
}

class MoeLayersExperiment final : public ConfigExperiment {
 public:
  MoeLayersExperiment(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults)
      : params_(read_sections<Sections>(root, registries, faults)) {
    if (!faults.empty()) return;
    check(root, faults);
    if (faults.empty()) read_machine(root, faults);
    seed_ = params_.run.seed;
    resolved_ = resolved_config("moe_layers", params_);
  }

  std::vector<std::pair<std::string, std::string>> restated() const override {
    std::string names;
    for (const ScheduleParams& one : params_.schedules) names += (names.empty() ? "" : ", ") + one.name;
    return {
        {"layers", fmt::format("{} of {} sizes", params_.layer.layers, count())},
        {"costs", machine_ ? fmt::format("fitted to {} {}", machine_->devices, machine_->device.name) : "as stated"},
        {"schedules", names}};
  }

  Outcome run(const RunSink& sink) const override {
    std::unique_ptr<BufferedFile> file;
    if (sink.folder) {
      file = std::make_unique<BufferedFile>(*sink.folder / "layers.csv");
      file->buffer() +=
          "batch,sequence,width,inner,products,factor,imbalance,schedule,forward_chunks,backward_chunks,step_s,closed_"
          "form_s\n";
    }
    FittedCosts costs;
    if (machine_)
      training::priced_or_fault(file_, [&] { costs = fitted(); });
    else
      costs.costs = *params_.costs;
    Result result{
        .params = params_, .costs = costs, .schedules = std::vector<ScheduleResult>(params_.schedules.size())};
    each_layer([&](const Layer& layer) {
      ++result.layers;
      const LayerPrices prices(costs.costs, layer, params_.layer.tensor);
      double first = 0;
      for (std::size_t i = 0; i < params_.schedules.size(); ++i) {
        const ScheduleParams& schedule = params_.schedules[i];
        const StackPlan plan = plan_stack(prices, params_.layer.layers, schedule);
        const double seconds = run_stack(prices, params_.layer.layers, schedule, plan);
        if (i == 0) first = seconds;
        add(result.schedules[i], plan, seconds, first);
        if (file) {
          append(file->buffer(), "{},{},{},{},{},{:.6g},{:.6g},{},{},{},{:.9g},{:.9g}\n", layer.batch, layer.sequence,
                 layer.width, layer.inner, layer.products, layer.factor, layer.imbalance, schedule.name, plan.forward,
                 plan.backward.back(), seconds, plan.closed_s);
          file->line_done();
        }
      }
    });
    if (file) file->close();
    return {.summary = result_table().written(result),
            .events = static_cast<std::uint64_t>(result.layers) * params_.schedules.size()};
  }

 private:
  static void add(ScheduleResult& own, const StackPlan& plan, double seconds, double first) {
    own.seconds += seconds;
    own.speedups += first / seconds;
    own.closed_s += plan.closed_s;
    const double error = plan.closed_s / seconds - 1;
    if (std::abs(error) > std::abs(own.furthest)) own.furthest = error;
    own.unlike += plan.backward.back() != plan.forward ? 1 : 0;
    own.chunks += static_cast<double>(plan.forward);
  }

  std::int64_t count() const {
    const GridParams& g = params_.layer;
    return std::ssize(g.batch) * std::ssize(g.sequence) * std::ssize(g.width) * std::ssize(g.inner_ratio) *
           std::ssize(g.products) * std::ssize(g.factor) * std::ssize(g.imbalance);
  }

  void check(const Node& root, sim::Faults& faults) const {
    const Node layer = section(root, "layer");
    const std::size_t sizes[] = {params_.layer.batch.size(),    params_.layer.sequence.size(),
                                 params_.layer.width.size(),    params_.layer.inner_ratio.size(),
                                 params_.layer.products.size(), params_.layer.factor.size(),
                                 params_.layer.imbalance.size()};
    const char* const names[] = {"batch", "sequence", "width", "inner_ratio", "products", "factor", "imbalance"};
    double all = 1;
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      if (sizes[i] == 0) faults.add(place_of(layer, names[i]), "expected at least one, got none");
      all *= static_cast<double>(sizes[i]);
    }
    if (all > static_cast<double>(kMostLayers))
      faults.add(layer.origin(), fmt::format("expected at most {} sizes, these lists give {:.3g}", kMostLayers, all));
    if (params_.schedules.empty()) faults.add(place_of(root, "schedules"), "expected at least one schedule, got none");
    std::int64_t chunks = 0;
    for (std::size_t i = 0; i < params_.schedules.size(); ++i) {
      const ScheduleParams& one = params_.schedules[i];
      const Node& node = root.find("schedules")->items()[i];
      if (one.degrees.empty())
        faults.add(place_of(node, "degrees"), "expected at least one number of chunks, got none");
      else
        chunks += *std::ranges::max_element(one.degrees);
      for (std::size_t k = 0; k < i; ++k)
        if (params_.schedules[k].name == one.name)
          faults.add(place_of(node, "name"),
                     fmt::format("expected a name of its own, '{}' is schedules.{}'s too", one.name, k));
    }
    const double tasks = 10.0 * all * static_cast<double>(params_.layer.layers) * static_cast<double>(chunks);
    if (faults.empty() && tasks > static_cast<double>(kMostTasks))
      faults.add(
          place_of(layer, "layers"),
          fmt::format("expected at most {} tasks, these sizes, layers and chunks give some {:.3g}", kMostTasks, tasks));
  }

  template <class Each>
  void each_layer(Each each) const {
    const GridParams& g = params_.layer;
    for (const std::int64_t batch : g.batch)
      for (const std::int64_t sequence : g.sequence)
        for (const std::int64_t width : g.width)
          for (const std::int64_t ratio : g.inner_ratio)
            for (const std::int64_t products : g.products)
              for (const double factor : g.factor)
                for (const double imbalance : g.imbalance)
                  each({batch, sequence, width, ratio * width, products, g.shared_by, factor, imbalance});
  }

  void read_machine(const Node& root, sim::Faults& faults) {
    if (params_.machine.has_value() == params_.costs.has_value())
      faults.add(root.origin(), "expected either 'costs', or a 'machine' that they are fitted to");
    if (!faults.empty() || !params_.machine) return;
    const Node node = section(root, "machine");
    file_ = root.origin().file;
    machine_ = training::read_training_machine(node, *params_.machine, inputs_, faults);
    if (!faults.empty()) return;
    if (const auto why = layers_obstacle(*machine_, params_.layer.shared_by, params_.layer.tensor))
      faults.add(node.origin(), *why);
  }

  FittedCosts fitted() const {
    std::vector<Layer> layers;
    each_layer([&](const Layer& layer) { layers.push_back(layer); });
    std::int64_t chunks = 1;
    for (const ScheduleParams& one : params_.schedules)
      chunks = std::max(chunks, *std::ranges::max_element(one.degrees));
    return machine_costs(*machine_, layers, params_.layer.tensor, chunks);
  }

  Sections params_;
  std::string file_;
  std::optional<training::TrainingMachine> machine_;  ///< none: costs are stated
};

}  // namespace
}  // namespace moe_layers

System moe_layers_system() {
  return {
      .name = "moe_layers",
      .doc = "Training of layers with experts: chunks of exchange, gathers and products on three resources.",
      .fields = describe_sections<moe_layers::Sections>,
      .figures = moe_layers::result_table().infos(),
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        auto experiment = std::make_unique<moe_layers::MoeLayersExperiment>(root, *systems.registries(), faults);
        faults.throw_if_any();
        return experiment;
      }};
}

}  // namespace orrery::experiments
