#include "experiments/systems/training/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>

#include "experiments/systems/training/offload.hpp"
#include "experiments/systems/training/stage_tables.hpp"

namespace orrery::experiments::training {
namespace {

/// Why the schedule cannot run the plan; nothing if it can.
std::optional<std::string> schedule_obstacle(const policies::PipelineSchedule& schedule, const Plan& plan) {
  const policies::ScheduleView view{
      .devices = plan.pipeline, .micro_batches = plan.micro_batches, .chunks = plan.chunks};
  return schedule.obstacle(view);
}

/// Why the schedule cannot have what passes need in the host's memory; nothing if it can.
std::optional<std::string> halves_obstacle(const policies::PipelineSchedule& schedule, const Plan& plan) {
  const char* what = nullptr;  // of passes: states cross in the update alone
  for (const OffloadField& field : kOffloadFields)
    if (what == nullptr && field.of != &OffloadParams::offload_optimizer && any_share(plan.*field.of))
      what = field.name;
  if (what == nullptr) return std::nullopt;
  for (const auto& device :
       schedule.order({.devices = plan.pipeline, .micro_batches = plan.micro_batches, .chunks = plan.chunks}))
    for (const policies::StagePass& pass : device)
      if (pass.kind == policies::PassKind::backward_input)
        return fmt::format("{} with a schedule that halves backward passes is not modelled", what);
  return std::nullopt;
}

double step_energy(const TrainingMachine& machine, const TrainingResult& result) {
  const auto ranks = [&](std::size_t s) {
    return static_cast<double>(result.plan.of_stage(static_cast<std::int64_t>(s)).stage_ranks());
  };
  double dynamic = 0;
  for (std::size_t s = 0; s < result.costs.stages.size(); ++s)
    dynamic += ranks(s) * stage_energy(result.costs.stages[s], result.plan.micro_batches);
  for (const MessageRun& message : result.run.messages)
    dynamic += result.costs.messages.between(message.from, message.to).energy_j *
               ranks(static_cast<std::size_t>(message.from));
  return dynamic + idle_j(machine, result.run.times.time_s);
}

void refuse(TrainingResult& result, std::string reason) {
  result.status = "infeasible";
  result.reason = std::move(reason);
}

}  // namespace

std::optional<std::vector<std::int64_t>> stage_layers(const policies::PartitionRegistry::Choice& partition,
                                                      const ModelCosts& model, const Plan& plan, std::string& why,
                                                      std::span<const double> speeds) {
  if (plan.pipeline * plan.chunks > model.layers) {
    why = fmt::format("{} stages of {} chunks want as many layers, the model has {}", plan.pipeline, plan.chunks,
                      model.layers);
    return std::nullopt;
  }
  const std::vector<std::int64_t> weights(static_cast<std::size_t>(model.layers),
                                          std::max<std::int64_t>(1, model.part(PartName::layer).all().weight_bytes));
  const policies::PartitionView view{.stages = plan.pipeline,
                                     .layers = weights,
                                     .embedding = model.part(PartName::embedding).dense.weight_bytes,
                                     .head = model.part(PartName::head).dense.weight_bytes,
                                     .speeds = speeds};
  std::vector<std::int64_t> layers = partition.make()->divide(view);
  if (std::ssize(layers) != plan.pipeline ||
      std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) != model.layers) {
    why = fmt::format("the partition lists {} stages of {} layers in all, the plan has {} stages, the model {} layers",
                      layers.size(), std::accumulate(layers.begin(), layers.end(), std::int64_t{0}), plan.pipeline,
                      model.layers);
    return std::nullopt;
  }
  for (const std::int64_t count : layers)
    if (count < plan.chunks) {
      why = fmt::format("a stage of {} layers has no {} chunks", count, plan.chunks);
      return std::nullopt;
    }
  return layers;
}

StageMemory stage_memory(const ModelCosts& model, const StageCosts& stage, const Plan& plan, std::int64_t kept_bytes) {
  StageMemory memory{.weights = stage.weight_bytes,
                     .gradients = stage.gradient_bytes,
                     .optimizer = stage.state_bytes,
                     .activations = kept_bytes,
                     .buffers = stage.buffer_bytes};
  // A layer that runs again holds what it made until its backward pass is through.
  const PartCosts& layer = model.part(PartName::layer);
  if (plan.recompute == Recompute::full) memory.working = layer.saved_bytes;
  if (plan.recompute == Recompute::by_op)
    memory.working = std::max<std::int64_t>(0, layer.saved_bytes - layer.by_op_kept_bytes);
  if (plan.recompute == Recompute::selective) memory.working = layer.core_saved_bytes;
  // Of weights that copies share out, those at hand and the next layer's are there whole, and the gradients at hand.
  const auto whole = [&](const PartCosts& part) {
    if (plan.zero != Zero::weights || !has_copies(model, plan)) return std::int64_t{0};
    const HeldCosts own = part.all();
    return own.weight_bytes + layer.all().weight_bytes + (plan.gradients_fp32 ? 4 * own.parameters : own.weight_bytes);
  };
  memory.working = std::max(memory.working, layer.working_bytes) + whole(layer);
  const auto edge = [&](PartName name) {
    const PartCosts& part = model.part(name);
    memory.working = std::max(memory.working, part.working_bytes + whole(part));
  };
  for (const ChunkCosts& chunk : stage.chunks) {
    if (chunk.first) edge(PartName::embedding);
    if (chunk.last) edge(PartName::head);
  }
  const auto fuller = [](const StageMemory& a, const StageMemory& b) { return b.total() > a.total() ? b : a; };
  // Gradients that are made anew are not there when the one backward pass begins; when it ends activations are gone.
  if (plan.gradients_anew && plan.micro_batches == 1) {
    StageMemory end = memory;
    end.moment = MemoryMoment::last_gradients;
    end.activations = 0;
    end.working = layer.working_bytes + whole(layer);
    memory.gradients = 0;
    memory = fuller(memory, end);
  }
  return fuller(memory, {.weights = stage.weight_bytes,
                         .gradients = stage.update_gradient_bytes,
                         .optimizer = stage.state_bytes,
                         .working = stage.update_working_bytes,
                         .buffers = stage.buffer_bytes,
                         .moment = MemoryMoment::update});
}

namespace {

constexpr std::int64_t kLargestBatch = 1 << 16;

/// Whether a step of one micro-batch fits the devices.
bool fits(CostTable& table, const TrainingMachine& machine, const Plan& plan, const std::vector<std::int64_t>& layers) {
  std::vector<std::int64_t> host;
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const Plan own = plan.of_stage(s);
    const ModelCosts& model = table.costs(own.share());
    const StageCosts stage = stage_costs(model, machine, own, s, layers[static_cast<std::size_t>(s)]);
    std::int64_t kept = 0;
    for (const ChunkCosts& chunk : stage.chunks) kept += chunk.kept_bytes;
    if (stage_memory(model, stage, own, kept).total() > machine.device.memory_bytes) return false;
    std::int64_t away = 0;
    for (const ChunkCosts& chunk : stage.chunks) away += chunk.host_bytes;
    host.push_back(stage.host_bytes(away));
  }
  return !machine.host_memory || fullest_host(plan, machine.node_devices, host) <= *machine.host_memory;
}

/// The largest micro-batch that fits, by doubling and bisection; 1 if none does.
std::int64_t largest_micro_batch(CostTable& table, const TrainingMachine& machine, Plan plan,
                                 const std::vector<std::int64_t>& layers) {
  const auto fit = [&](std::int64_t sequences) {
    plan.micro_batch = sequences;
    return fits(table, machine, plan, layers);
  };
  std::int64_t low = 1;
  while (low < kLargestBatch && fit(2 * low)) low *= 2;
  for (std::int64_t high = 2 * low; high - low > 1;) {
    const std::int64_t middle = (low + high) / 2;
    (fit(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

std::vector<double> stage_speeds(const TrainingConfig& config, const Plan& plan) {
  std::vector<double> speeds;
  const TrainingMachine& machine = config.machine;
  if ((!machine.mixed && machine.unlike.empty()) || !config.params.policies.partition.make()->wants_speeds())
    return speeds;
  TrainingConfig alone = config;
  const auto speed = [&] {
    const TrainingResult result = train(alone);
    return result.timed ? 1 / result.run.times.time_s : 1;
  };
  std::vector<double> of_kind;
  for (std::size_t k = 0; k < machine.unlike.size(); ++k) {
    alone.machine = machine_of_kind(machine, k);
    of_kind.push_back(speed());
  }
  for (std::int64_t s = 0; s < plan.pipeline && !machine.unlike.empty(); ++s)
    speeds.push_back(of_kind[kind_of_ranks(machine, s * plan.stage_ranks(), plan.stage_ranks()).value_or(0)]);
  if (!machine.mixed) return speeds;
  alone.machine.mixed.reset();
  for (const NodeNics& kind : machine.mixed->kinds) {
    alone.machine.nics = kind;
    of_kind.push_back(speed());
  }
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const std::int64_t node = s * plan.stage_ranks() / machine.node_devices;
    speeds.push_back(of_kind[static_cast<std::size_t>(machine.mixed->kind_of[static_cast<std::size_t>(node)])]);
  }
  return speeds;
}

/// Why groups that are priced alike wherever they are cannot be so on unlike nodes; nothing if they can.
std::optional<std::string> mixed_obstacle(const TrainingMachine& machine, const Plan& plan) {
  if (!machine.mixed) return std::nullopt;
  if (!machine.unlike.empty()) return "unlike devices in nodes with unlike adapters are not modelled";
  if (!plan.stage_tensor.empty()) return "stages of unlike tensor parallelism on unlike nodes are not modelled";
  if (machine.node_devices % (plan.tensor * plan.context) != 0 || machine.node_devices % plan.experts != 0)
    return fmt::format("on unlike nodes, ranks that share a layer stay in one node of {}: {} do not",
                       machine.node_devices, std::max(plan.tensor * plan.context, plan.experts));
  return std::nullopt;
}

std::optional<std::string> host_obstacle(const TrainingMachine& machine, std::int64_t host_bytes) {
  if (!machine.host_memory || host_bytes <= *machine.host_memory) return std::nullopt;
  return fmt::format("the fullest node's ranks need {} in their host's memory, it has {}",
                     sim::humanise(static_cast<double>(host_bytes), sim::Unit::bytes),
                     sim::humanise(static_cast<double>(*machine.host_memory), sim::Unit::bytes));
}

std::optional<std::string> offload_obstacle(const TrainingConfig& config, const PlanParams& plan) {
  for (const OffloadField& field : kOffloadFields)
    if (!config.machine.host_link && any_share(plan.*field.of))
      return fmt::format("{} needs machine.host_link: the machine has no way to its host's memory", field.name);
  if (!any_share(plan.offload_optimizer)) return std::nullopt;
  if (config.machine.offload->host_updates() && !config.machine.host_update)
    return fmt::format("policies.offload {} needs machine.host_update: how fast the host updates",
                       config.params.policies.offload.name);
  return std::nullopt;
}

namespace {

/// Stages whose passes a copy's slow nodes lengthen, by how much; every copy that has such nodes, equal ones once.
std::set<std::vector<double>> slow_copies(const TrainingMachine& machine, const Plan& plan) {
  std::map<std::int64_t, std::vector<double>> by_copy;
  for (const SlowNode& slow : machine.slow)
    for (std::int64_t rank = slow.node * machine.node_devices; rank < (slow.node + 1) * machine.node_devices; ++rank) {
      if (rank >= plan.stage_ranks() * plan.pipeline) break;
      const std::int64_t stage = rank / plan.stage_ranks();
      const std::int64_t copy = rank % plan.stage_ranks() / (plan.tensor * plan.context);
      std::vector<double>& slower =
          by_copy.try_emplace(copy, static_cast<std::size_t>(plan.pipeline), 1.0).first->second;
      double& own = slower[static_cast<std::size_t>(stage)];
      own = std::max(own, 1 / slow.speed);
    }
  std::set<std::vector<double>> all;
  for (auto& [copy, slower] : by_copy) all.insert(std::move(slower));
  return all;
}

/// The step of the slowest copy: gradients are summed when all are there.
void wait_for_slow_copies(const TrainingConfig& config, const policies::PipelineSchedule& schedule,
                          TrainingResult& result) {
  const StepCosts alike = result.costs;
  for (const std::vector<double>& slower : slow_copies(config.machine, result.plan)) {
    StepCosts costs = alike;
    for (std::size_t s = 0; s < costs.stages.size(); ++s) costs.stages[s] = slowed(alike.stages[s], slower[s]);
    StepRun run = run_step(costs, schedule, tick_scale(config.params.run.tick_s));
    if (run.times.time_s <= result.run.times.time_s) continue;
    result.run = std::move(run);
    result.costs = std::move(costs);
  }
}

/// Layers of all passes, beyond which no allocator follows every tensor: that takes some seconds.
constexpr std::int64_t kMostReserved = 200'000;

std::int64_t layers_run(const TrainingResult& result) {
  std::int64_t layers = 0;
  for (const PassRun& pass : result.run.passes)
    layers += result.costs.stages[static_cast<std::size_t>(pass.stage)]
                  .chunks[static_cast<std::size_t>(pass.pass.chunk)]
                  .layers;
  return layers;
}

/// What the allocator takes for each stage, and whether that fits where the tensors do.
void reserve(const TrainingConfig& config, StageTables& stages, TrainingResult& result) {
  if (result.status != "ok" || layers_run(result) > kMostReserved) return;
  for (std::size_t st = 0; st < result.costs.stages.size(); ++st) {
    const auto s = static_cast<std::int64_t>(st);
    const Plan own = result.plan.of_stage(s);
    const LayerShare share = own.share();
    CostTable& table = stages.table(result.plan, s);
    const std::int64_t room = stages.machine(result.plan, s).device.memory_bytes - config.machine.context_bytes;
    std::optional<Reserved> reserved;
    // The busiest rank's tensors are not those of the graph, and first layers that run again are not told apart there.
    const bool first_again = table.costs(share).before > 0 && own.recompute == Recompute::full;
    if (!config.model.expert_load && !first_again)
      reserved = reserved_memory(table.graph(share.tensor, share.sequence, share.experts, share.step_casts),
                                 table.sizes(share), own, result.costs.stages[st], own.again(s, result.layers[st]),
                                 passes_of(result.run, s), room);
    result.reserved.push_back(reserved);
    if (result.status == "ok" && reserved && reserved->exceeded)
      refuse(result, fmt::format("stage {} needs {} for its tensors, of {}, but the allocator's blocks take {}: free "
                                 "ones are too small",
                                 s, sim::humanise(static_cast<double>(result.memory[st].total()), sim::Unit::bytes),
                                 sim::humanise(static_cast<double>(room), sim::Unit::bytes),
                                 sim::humanise(static_cast<double>(reserved->reserved), sim::Unit::bytes)));
  }
}

}  // namespace

TrainingResult train(const TrainingConfig& config) {
  TrainingResult result;
  if (config.no_plan) {
    refuse(result, *config.no_plan);
    return result;
  }
  std::optional<std::string> why;
  const bool largest = config.params.workload.largest_batch;
  PlanParams asked = config.params.plan;
  result.global_batch = config.params.workload.global_batch;
  if (largest) {
    asked.micro_batch = 1;
    Plan one = make_plan(asked, config.machine.devices, 1, why);
    why.reset();
    result.global_batch = one.data;
  }
  result.plan = make_plan(asked, config.machine.devices, result.global_batch, why);
  const std::unique_ptr<policies::PipelineSchedule> schedule = config.params.policies.schedule.make();
  if (const auto own = schedule->own_chunks()) result.plan.chunks = *own;
  if (!why && pass_count(result.plan) > kMostPasses)
    why = fmt::format("{} passes of stages are more than the {} that are run: larger micro-batches make fewer",
                      pass_count(result.plan), kMostPasses);
  if (!why) why = offload_obstacle(config, config.params.plan);
  if (!why) why = schedule_obstacle(*schedule, result.plan);
  if (!why) why = halves_obstacle(*schedule, result.plan);
  if (!why) why = machine_obstacle(config.machine, result.plan.ranks());
  if (!why) why = mixed_obstacle(config.machine, result.plan);
  if (!why && largest && !config.machine.unlike.empty()) why = "the largest batch of unlike devices is not modelled";
  if (!why && largest && config.machine.allocator != Allocator::none)
    why = "the largest batch by what an allocator reserves is not modelled";
  StageTables stages(config.machine, config.model);
  if (!why) why = stages.obstacle(result.plan);
  if (!why && !config.machine.slow.empty() && !result.plan.stage_tensor.empty())
    why = "stages of unlike tensor parallelism with slow nodes are not modelled";
  if (why) {
    refuse(result, *why);
    return result;
  }
  result.plan.head_stage =
      schedule->routes({.devices = result.plan.pipeline, .chunks = result.plan.chunks}).front().back().device;
  CostTable& table = stages.table(result.plan, 0);
  for (std::int64_t s = 0; s < result.plan.pipeline && !why; ++s)
    why = stages.table(result.plan, s).obstacle(result.plan.of_stage(s).share());
  if (why) {
    refuse(result, *why);
    return result;
  }
  const ModelCosts& model = table.costs(result.plan.share());
  std::string reason;
  const auto layers =
      stage_layers(config.params.policies.partition, model, result.plan, reason, stage_speeds(config, result.plan));
  if (!layers) {
    refuse(result, std::move(reason));
    return result;
  }
  result.layers = *layers;
  if (largest) {
    result.plan.micro_batch = largest_micro_batch(table, config.machine, result.plan, result.layers);
    result.global_batch = result.plan.data * result.plan.micro_batch;
  }
  result.costs = stages.step(result.plan, result.layers);
  if (config.model.expert_load) result.busiest = table.busiest(result.plan.share());
  result.run = run_step(result.costs, *schedule, tick_scale(config.params.run.tick_s));
  if (!config.machine.slow.empty()) wait_for_slow_copies(config, *schedule, result);
  result.closed = closed_form(result.costs);
  result.timed = true;
  for (std::size_t s = 0; s < result.costs.stages.size(); ++s) {
    const Plan own = result.plan.of_stage(static_cast<std::int64_t>(s));
    result.memory.push_back(stage_memory(stages.table(result.plan, static_cast<std::int64_t>(s)).costs(own.share()),
                                         result.costs.stages[s], own, result.run.peak_kept_bytes[s]));
  }
  for (std::size_t s = 0; s < result.costs.stages.size(); ++s)
    for (const ChunkCosts& chunk : result.costs.stages[s].chunks)
      result.model_flops += (chunk.forward.flops + chunk.backward_input.flops + chunk.backward_weight.flops) *
                            static_cast<double>(result.plan.micro_batches *
                                                result.plan.of_stage(static_cast<std::int64_t>(s)).stage_ranks());
  result.idle_j = idle_j(config.machine, result.run.times.time_s);
  result.energy_j = step_energy(config.machine, result);
  double share = 0;
  for (std::size_t st = 0; st < result.memory.size(); ++st) {
    const std::int64_t available = stages.machine(result.plan, static_cast<std::int64_t>(st)).device.memory_bytes;
    const double own = static_cast<double>(result.memory[st].total()) / static_cast<double>(available);
    if (own <= share) continue;
    share = own;
    result.fullest = st;
    result.available_bytes = available;
  }
  if (const std::int64_t needed = result.memory[result.fullest].total(); needed > result.available_bytes)
    refuse(result, fmt::format("stage {} needs {}, a device has {}", result.fullest,
                               sim::humanise(static_cast<double>(needed), sim::Unit::bytes),
                               sim::humanise(static_cast<double>(result.available_bytes), sim::Unit::bytes)));
  if (config.machine.allocator == Allocator::caching) reserve(config, stages, result);
  std::vector<std::int64_t> host;
  for (std::size_t st = 0; st < result.costs.stages.size(); ++st)
    host.push_back(result.costs.stages[st].host_bytes(result.run.peak_host_bytes[st]));
  result.host_bytes = fullest_host(result.plan, config.machine.node_devices, host);
  if (const auto full = host_obstacle(config.machine, result.host_bytes); full && result.status == "ok")
    refuse(result, *full);
  return result;
}

TrainingResult train_or_fault(const TrainingConfig& config) {
  TrainingResult result;
  priced_or_fault(config.file, [&] { result = train(config); });
  return result;
}

void priced_or_fault(const std::string& file, const std::function<void()>& act) {
  try {
    act();
  } catch (const std::overflow_error& error) {
    sim::throw_fault({file, ""}, error.what());
  } catch (const std::invalid_argument& error) {
    sim::throw_fault({file, "/machine/devices/0/part"}, error.what());
  } catch (const models::GraphError& error) {
    sim::throw_fault({file, "/model"}, error.what());
  }
}

}  // namespace orrery::experiments::training
