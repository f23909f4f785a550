#include "experiments/job/shape.hpp"

#include <algorithm>
#include <numeric>

#include "experiments/systems/training/run.hpp"

namespace orrery::experiments::job {
namespace {

using policies::RecoveryStage;
namespace tr = training;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

void add_cell(std::vector<Cell>& cells, Cell cell) {
  if (std::ranges::find(cells, cell) == cells.end()) cells.push_back(cell);
}

JobShape stated_shape(const JobConfig& config) {
  const JobParams& job = config.params.job;
  JobShape shape{.nodes = job.nodes,
                 .node_devices = job.node_devices,
                 .ranks = job.nodes * job.node_devices,
                 .copies = job.copies,
                 .micro_batches = job.micro_batches,
                 .step_s = job.step_s,
                 .state_bytes = static_cast<double>(job.state_bytes)};
  // M micro-batches through S equal stages take (M + S - 1) passes of a stage: no layers to move, no tail.
  const double pass = job.step_s / static_cast<double>(job.micro_batches + job.stages - 1);
  shape.stages.assign(at(job.stages), RecoveryStage{.layer_s = pass});
  const std::int64_t grid = job.copies * job.stages;
  shape.cells.resize(at(job.nodes));
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    const auto cell = static_cast<std::int64_t>(static_cast<__int128>(rank) * grid / shape.ranks);
    add_cell(shape.cells[at(rank / job.node_devices)], {cell % job.copies, cell / job.copies});
  }
  shape.step_with = [pass, micro = job.micro_batches](std::span<const double> slower, std::span<const std::int64_t>) {
    double sum = 0, slowest = 0;
    for (const double scale : slower) sum += scale, slowest = std::max(slowest, scale);
    return pass * (sum + static_cast<double>(micro - 1) * slowest);
  };
  return shape;
}

/// The training step that was run, and what it would be otherwise.
class PricedStep {
 public:
  PricedStep(const tr::TrainingConfig& config, tr::TrainingResult result)
      : config_(config),
        result_(std::move(result)),
        table_(config_.machine, config_.model),
        schedule_(config_.params.policies.schedule.make()) {}

  tr::StageCosts stage(std::int64_t s, std::int64_t layers) {
    const tr::Plan own = result_.plan.of_stage(s);
    return tr::stage_costs(table_.costs(own.share()), config_.machine, own, s, layers);
  }

  double with(std::span<const double> slower, std::span<const std::int64_t> layers) {
    tr::StepCosts costs = result_.costs;
    for (std::size_t s = 0; s < costs.stages.size(); ++s)
      costs.stages[s] = tr::slowed(
          layers[s] == result_.layers[s] ? costs.stages[s] : stage(static_cast<std::int64_t>(s), layers[s]), slower[s]);
    return tr::run_step(costs, *schedule_, tick_scale(config_.params.run.tick_s)).times.time_s;
  }

  RecoveryStage recovery_stage(std::int64_t s) {
    const tr::StageCosts& own = result_.costs.stages[at(s)];
    const std::int64_t layers = result_.layers[at(s)];
    RecoveryStage stage{.layers = layers, .most_layers = layers, .tail_s = own.optimizer_s + own.gathers_s};
    stage.tail_s += result_.run.times.gradients_s;
    const double pass = own.forward_s() + own.backward_s();
    stage.layer_s = pass / static_cast<double>(layers);
    if (own.chunks.size() == 1) {  // layers of chunks do not move
      const tr::StageCosts more = this->stage(s, layers + 1);
      stage.layer_s = std::min(stage.layer_s, more.forward_s() + more.backward_s() - pass);
      stage.most_layers = most_layers(s, layers);
    }
    stage.edge_s = pass - stage.layer_s * static_cast<double>(layers);
    return stage;
  }

  double state_bytes() {
    const tr::ModelCosts& whole = table_.costs({.micro_batch = result_.plan.micro_batch});
    const auto bytes = [&](tr::PartName name) {
      const tr::HeldCosts held = whole.part(name).all();
      return static_cast<double>(held.weight_bytes) + static_cast<double>(held.state_bytes);
    };
    return bytes(tr::PartName::embedding) + bytes(tr::PartName::head) +
           bytes(tr::PartName::layer) * static_cast<double>(whole.layers);
  }

  const tr::TrainingResult& result() const { return result_; }

 private:
  std::int64_t most_layers(std::int64_t s, std::int64_t layers) {
    const tr::Plan own = result_.plan.of_stage(s);
    const tr::ModelCosts& model = table_.costs(own.share());
    const auto kept = static_cast<double>(result_.run.peak_kept_bytes[at(s)]) / static_cast<double>(layers);
    const auto fits = [&](std::int64_t count) {
      return tr::stage_memory(model, stage(s, count), own, static_cast<std::int64_t>(kept * static_cast<double>(count)))
                 .total() <= config_.machine.device.memory_bytes;
    };
    std::int64_t most = layers;
    while (most < model.layers && fits(most + 1)) ++most;
    return most;
  }

  const tr::TrainingConfig& config_;
  tr::TrainingResult result_;
  tr::CostTable table_;
  std::unique_ptr<policies::PipelineSchedule> schedule_;
};

JobShape priced_shape(const JobConfig& config) {
  const tr::TrainingConfig& training = *config.training;
  tr::TrainingResult result = tr::train_or_fault(training);
  if (result.status != "ok") return {.obstacle = result.reason};
  const auto priced = std::make_shared<PricedStep>(training, std::move(result));
  const tr::TrainingResult& run = priced->result();
  const tr::Plan& plan = run.plan;
  JobShape shape{.node_devices = training.machine.node_devices,
                 .ranks = training.machine.devices,
                 .copies = plan.data,
                 .micro_batches = plan.micro_batches,
                 .step_s = run.run.times.time_s};
  shape.nodes = (shape.ranks + shape.node_devices - 1) / shape.node_devices;
  shape.tokens = static_cast<double>(run.global_batch) * static_cast<double>(training.params.workload.sequence);
  const double stated = config.params.job.step_s;
  const double scale = stated > 0 ? stated / shape.step_s : 1;
  shape.step_s *= scale;
  const std::int64_t state = config.params.job.state_bytes;
  shape.state_bytes = state > 0 ? static_cast<double>(state) : priced->state_bytes();
  shape.cells.resize(at(shape.nodes));
  std::int64_t first = 0;
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    RecoveryStage stage = priced->recovery_stage(s);
    for (double* time : {&stage.layer_s, &stage.edge_s, &stage.tail_s}) *time *= scale;
    shape.stages.push_back(stage);
    const tr::Plan own = plan.of_stage(s);
    const std::int64_t copy = own.tensor * own.context;
    for (std::int64_t rank = 0; rank < own.stage_ranks(); ++rank)
      add_cell(shape.cells[at((first + rank) / shape.node_devices)], {rank / copy, s});
    first += own.stage_ranks();
  }
  shape.step_with = [priced, scale](std::span<const double> slower, std::span<const std::int64_t> layers) {
    return scale * priced->with(slower, layers);
  };
  return shape;
}

}  // namespace

JobShape job_shape(const JobConfig& config) {
  JobShape shape = config.training ? priced_shape(config) : stated_shape(config);
  if (shape.obstacle.empty())
    shape.node_bytes = shape.state_bytes * static_cast<double>(shape.copies) / static_cast<double>(shape.nodes);
  return shape;
}

}  // namespace orrery::experiments::job
