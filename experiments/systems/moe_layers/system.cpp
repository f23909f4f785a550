#include "experiments/systems/moe_layers/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "experiments/base/config_experiment.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/figure_table.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/systems/moe_layers/layer_times.hpp"

namespace orrery::experiments {
namespace moe_layers {
namespace {

using sim::Node;

constexpr std::int64_t kMostLayers = 100'000, kMostTasks = 20'000'000;

struct GridParams {
  std::vector<std::int64_t> batch{1}, sequence{1024}, width{2048}, inner_ratio{4}, products{2};
  std::vector<double> factor{1.2};
  std::int64_t shared_by = 8, tensor = 8, layers = 2;
  static constexpr auto fields() {
    using sim::Unit;
    using G = GridParams;
    return sim::FieldTable{
        sim::field("batch", &G::batch, Unit::count, sim::between(1, 1 << 16), "Sequences of a node."),
        sim::field("sequence", &G::sequence, Unit::tokens, sim::between(1, 1 << 24), "Of one of them."),
        sim::field("width", &G::width, Unit::count, sim::between(1, 1 << 20), "Of a token."),
        sim::field("inner_ratio", &G::inner_ratio, Unit::none, sim::between(1, 64),
                   "Width inside an expert over that of a token."),
        sim::field("products", &G::products, Unit::count, sim::between(1, 8), "Of an expert: 2, gated ones 3."),
        sim::field("factor", &G::factor, Unit::none, sim::between(0.01, 1e4),
                   "Rows of experts for each token: choices times capacity."),
        sim::field("shared_by", &G::shared_by, Unit::count, sim::between(1, 4096), "Ranks that share an expert."),
        sim::field("tensor", &G::tensor, Unit::count, sim::between(1, 4096), "Ranks that share attention."),
        sim::field("layers", &G::layers, Unit::layers, sim::between(1, 10'000), "Equal ones, in a step.")};
  }
};

struct Sections {
  CostParams costs;
  GridParams layer;
  std::vector<ScheduleParams> schedules;
  PlainRunParams run;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{
        sim::required(sim::section("costs", &S::costs, "What messages and products take, as fitted on the machine.")),
        sim::section("layer", &S::layer, "Sizes; of lists, every combination is run."),
        sim::required(sim::field("schedules", &S::schedules, "How the layers are run; the first is compared with.")),
        sim::section("run", &S::run, "Not used: nothing is drawn.")};
  }
};

/// Of a schedule over all layers.
struct ScheduleResult {
  double seconds = 0, speedups = 0, closed_s = 0, furthest = 0, unlike = 0, chunks = 0;
};

struct Result {
  const Sections& params;
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
      {"{step_s,closed_form_s}", "s", "A step of all layers, mean over sizes: by events, by the closed form.",
       [](const O& o) { return o.of(o.own.seconds); }, [](const O& o) { return o.of(o.own.closed_s); }},
      {"speedup", "ratio", "Over the first schedule, mean over sizes.",
       [](const O& o) { return o.of(o.own.speedups); }},
      {"closed_form_error", "ratio", "Closed form less events over events, the furthest of all sizes.",
       [](const O& o) { return o.own.furthest; }},
      {"unlike_degrees", "ratio", "Of the sizes, those whose backward pass has another number of chunks.",
       [](const O& o) { return o.of(o.own.unlike); }},
      {"chunks", "", "Of the forward pass, mean over sizes.", [](const O& o) { return o.of(o.own.chunks); }}};
  return table;
}

const FigureTable<Result>& result_table() {
  using R = Result;
  static const FigureTable<R> table{
      {"status", "", "`ok`.", [](const R&) { return std::string("ok"); }},
      {"sizes", "", "Layers of unlike sizes that were run.", [](const R& r) { return r.layers; }},
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
    seed_ = params_.run.seed;
    resolved_ = resolved_config("moe_layers", params_);
  }

  std::vector<std::pair<std::string, std::string>> restated() const override {
    std::string names;
    for (const ScheduleParams& one : params_.schedules) names += (names.empty() ? "" : ", ") + one.name;
    return {{"layers", fmt::format("{} of {} sizes", params_.layer.layers, count())}, {"schedules", names}};
  }

  Outcome run(const RunSink& sink) const override {
    std::unique_ptr<BufferedFile> file;
    if (sink.folder) {
      file = std::make_unique<BufferedFile>(*sink.folder / "layers.csv");
      file->buffer() +=
          "batch,sequence,width,inner,products,factor,schedule,forward_chunks,backward_chunks,step_s,closed_form_s\n";
    }
    Result result{.params = params_, .schedules = std::vector<ScheduleResult>(params_.schedules.size())};
    each_layer([&](const Layer& layer) {
      ++result.layers;
      const LayerPrices prices(params_.costs, layer, params_.layer.tensor);
      double first = 0;
      for (std::size_t i = 0; i < params_.schedules.size(); ++i) {
        const ScheduleParams& schedule = params_.schedules[i];
        const StackPlan plan = plan_stack(prices, params_.layer.layers, schedule);
        const double seconds = run_stack(prices, params_.layer.layers, schedule, plan);
        if (i == 0) first = seconds;
        add(result.schedules[i], plan, seconds, first);
        if (file) {
          append(file->buffer(), "{},{},{},{},{},{:.6g},{},{},{},{:.9g},{:.9g}\n", layer.batch, layer.sequence,
                 layer.width, layer.inner, layer.products, layer.factor, schedule.name, plan.forward,
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
           std::ssize(g.products) * std::ssize(g.factor);
  }

  void check(const Node& root, sim::Faults& faults) const {
    const Node layer = section(root, "layer");
    const std::size_t sizes[] = {params_.layer.batch.size(),    params_.layer.sequence.size(),
                                 params_.layer.width.size(),    params_.layer.inner_ratio.size(),
                                 params_.layer.products.size(), params_.layer.factor.size()};
    const char* const names[] = {"batch", "sequence", "width", "inner_ratio", "products", "factor"};
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
                each({batch, sequence, width, ratio * width, products, g.shared_by, factor});
  }

  Sections params_;
};

}  // namespace
}  // namespace moe_layers

System moe_layers_system() {
  return {
      .name = "moe_layers",
      .doc = "Layers with experts in training: chunks of exchange, gathers and products on three resources.",
      .fields = describe_sections<moe_layers::Sections>,
      .figures = moe_layers::result_table().infos(),
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        auto experiment = std::make_unique<moe_layers::MoeLayersExperiment>(root, *systems.registries(), faults);
        faults.throw_if_any();
        return experiment;
      }};
}

}  // namespace orrery::experiments
