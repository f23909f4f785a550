#include "experiments/fidelity/training_step.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/training/stage_division.hpp"
#include "hw/cost/cost_model.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments {

struct StepPredictor::Trained {
  training::TrainedModel model;
  std::unique_ptr<training::CostTable> table;
};

namespace {

/// Passes over memory are fused, products stay the library's.
sim::Node no_epilogues() {
  sim::Node params = sim::Node::object();
  params.set("epilogues", sim::Node::boolean(false));
  return params;
}

}  // namespace

StepPredictor::StepPredictor(const PartShelf& parts, const hw::GpuParams& gpu, const MeasuredSystem& system) {
  machine_.device = hw::device_of(hw::with_attention(gpu, system.attention.value_or(gpu.attention.library)));
  machine_.node_devices = system.node_gpus;
  if (const auto* nic = parts.find<hw::NicPart>(system.nic)) machine_.nics = training::NodeNics{nic->part, system.nics};
  if (system.network_message && machine_.nics) {
    hw::NicPart& nic = machine_.nics->nic;
    nic.bandwidth *= *system.network_message / hw::achieved_bandwidth(nic);
  }
  machine_.host = system.host;
  machine_.in_situ = system.in_situ;
  machine_.host_link = system.host_link;
  models::register_builders(builders_, home_folder() / "models/catalog");
  policies::register_schedules(schedules_);
  policies::register_graph_passes(passes_);
}

StepPredictor::~StepPredictor() = default;

void StepPredictor::set_run(const training::InSitu& in_situ, const training::LaunchHost& host) {
  machine_.in_situ = in_situ;
  machine_.host = host;
  for (auto& [key, model] : models_) model->table->forget_prices();
}

TrainedGraph gpt_graph(const GptSizes& sizes) {
  TrainedGraph graph{.builder = "gpt2", .params = sim::Node::object(), .sequence = sizes.sequence};
  const auto set = [&](const char* name, std::int64_t value) { graph.params.set(name, sim::Node::integer(value)); };
  set("layers", sizes.layers);
  set("hidden", sizes.hidden);
  set("heads", sizes.heads);
  set("intermediate", 4 * sizes.hidden);
  set("vocab", sizes.vocabulary);
  set("positions", sizes.sequence);
  graph.params.set("attention", sim::Node::string(sizes.flash ? "sdpa" : "eager"));
  graph.params.set("loss", sim::Node::boolean(true));
  graph.params.set("wide_softmax", sim::Node::boolean(!sizes.fused_softmax));
  graph.params.set("wide_loss", sim::Node::boolean(true));
  graph.params.set("dropout", sim::Node::real(sizes.flash ? 0 : sizes.dropout));
  if (!sizes.flash)  // what Megatron-LM fuses: scale, mask and softmax; bias and GELU; dropout and residual
    graph.passes.emplace_back("loop_fusion", no_epilogues());
  return graph;
}

TrainedGraph decoder_graph(const DecoderRun& run) {
  TrainedGraph graph{.builder = "decoder", .params = sim::Node::object(), .sequence = run.sequence};
  if (!run.config.empty()) graph.params.set("config", sim::Node::string("catalog:" + run.config));
  graph.params.set("loss", sim::Node::boolean(true));
  graph.params.set("wide_loss", sim::Node::boolean(run.wide_loss));
  graph.params.set("merged", sim::Node::boolean(run.merged));
  if (run.further_tokens > 0) graph.params.set("further_tokens", sim::Node::integer(run.further_tokens));
  if (run.product_an_expert) graph.params.set("expert_products", sim::Node::string("per_expert"));
  graph.params.set("eager_loss", sim::Node::boolean(run.eager_loss));
  graph.params.set("passes", sim::Node::string(run.passes));
  if (run.fp8) graph.passes.emplace_back("fp8", *run.fp8);
  if (run.min_cut) graph.passes.emplace_back("min_cut", sim::Node::object());
  if (run.compiled) graph.passes.emplace_back("loop_fusion", run.epilogues ? sim::Node::object() : no_epilogues());
  return graph;
}

StepPredictor::Trained& StepPredictor::trained(const TrainedGraph& graph) {
  std::string key = fmt::format("{} {} {}", graph.builder, graph.params.dump(), graph.sequence);
  for (const auto& [name, params] : graph.passes) key += fmt::format(" {} {}", name, params.dump());
  std::unique_ptr<Trained>& slot = models_[key];
  if (slot) return *slot;
  auto made = std::make_unique<Trained>();
  sim::Faults faults;
  const sim::Origin place{"training table", ""};
  const auto choice = builders_.prepare(graph.builder, &graph.params, place, faults);
  faults.throw_if_any();
  made->model.forward = choice.make()->build();
  made->model.sequence = graph.sequence;
  for (const auto& [name, params] : graph.passes)
    made->model.passes.push_back({name, passes_.prepare(name, &params, place, faults), false});
  faults.throw_if_any();
  made->table = std::make_unique<training::CostTable>(machine_, made->model);
  slot = std::move(made);
  return *slot;
}

std::vector<double> cell_numbers(const std::string& cell, char mark) {
  std::vector<double> all;
  for (std::size_t begin = 0; begin <= cell.size();) {
    const std::size_t end = std::min(cell.find(mark, begin), cell.size());
    const auto number = sim::parse_quantity(cell.substr(begin, end - begin), sim::Unit::none);
    if (!number) sim::throw_fault({"training table", ""}, fmt::format("expected numbers, got '{}'", cell));
    all.push_back(*number);
    begin = end + 1;
  }
  return all;
}

std::optional<training::StageDivision> StepPredictor::balanced(const MeasuredStep& step) {
  std::optional<std::string> obstacle;
  const training::Plan plan = training::make_plan(step.plan, step.gpus, step.global_batch, obstacle);
  Trained& model = trained(step.model);
  for (std::int64_t s = 0; s < plan.pipeline && !obstacle; ++s)
    obstacle = model.table->obstacle(plan.of_stage(s).share());
  if (obstacle) return std::nullopt;
  const std::int64_t layers = model.table->layers();
  return training::divide_stages(*model.table, machine_, plan, layers, layers);
}

std::int64_t StepPredictor::Prediction::most_allocated() const {
  std::int64_t most = 0;
  for (const training::StageMemory& stage : memory) most = std::max(most, stage.total());
  return most;
}

std::int64_t StepPredictor::Prediction::most_reserved() const {
  std::int64_t most = 0;
  for (const training::Reserved& stage : reserved) most = std::max(most, stage.reserved);
  return most;
}

std::optional<StepPredictor::Prediction> StepPredictor::predict(const MeasuredStep& step, std::string& why) {
  std::optional<std::string> obstacle;
  machine_.devices = step.gpus;
  const training::Plan plan = training::make_plan(step.plan, step.gpus, step.global_batch, obstacle);
  Trained& model = trained(step.model);
  for (std::int64_t s = 0; s < plan.pipeline && !obstacle; ++s)
    obstacle = model.table->obstacle(plan.of_stage(s).share());
  const std::int64_t edges = step.edges_are_layers && plan.pipeline > 1 ? 1 : 0;
  const std::int64_t count = model.table->layers() + 2 * edges;
  if (!obstacle && plan.pipeline * plan.chunks > count)
    obstacle = fmt::format("{} chunks of {} layers", plan.pipeline * plan.chunks, count);
  if (obstacle) {
    why = *obstacle;
    return std::nullopt;
  }
  std::vector<std::int64_t> layers = step.layers;
  for (std::int64_t s = std::ssize(layers); s < plan.pipeline; ++s)
    layers.push_back(training::even_layers(count, plan.pipeline, s) - (s == 0 || s + 1 == plan.pipeline ? edges : 0));
  sim::Faults faults;
  const auto schedule = schedules_.prepare(step.schedule, nullptr, {"training table", ""}, faults);
  faults.throw_if_any();
  Prediction out;
  out.costs = training::step_costs(*model.table, machine_, plan, layers);
  out.run = training::run_step(out.costs, *schedule.make(), sim::TickScale(1000));
  out.closed = training::closed_form(out.costs);
  for (std::size_t s = 0; s < out.costs.stages.size(); ++s) {
    const training::Plan own = plan.of_stage(static_cast<std::int64_t>(s));
    out.memory.push_back(
        training::stage_memory(model.table->costs(own.share()), out.costs.stages[s], own, out.run.peak_kept_bytes[s]));
  }
  for (std::size_t s = 0; tell_reserved_ && s < out.costs.stages.size(); ++s) {
    const auto stage = static_cast<std::int64_t>(s);
    const training::Plan own = plan.of_stage(stage);
    const training::LayerShare share = own.share();
    const auto reserved =
        training::reserved_memory(model.table->graph(share.tensor, share.sequence, share.experts, share.step_casts),
                                  model.table->sizes(share), own, out.costs.stages[s], own.again(stage, layers[s]),
                                  training::passes_of(out.run, stage), machine_.device.memory_bytes);
    if (reserved) out.reserved.push_back(*reserved);
  }
  return out;
}

}  // namespace orrery::experiments
