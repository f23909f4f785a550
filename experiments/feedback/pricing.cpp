#include "experiments/feedback/pricing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "experiments/systems/training/run.hpp"

namespace orrery::experiments::feedback {
namespace {

constexpr double kPicoseconds = 1e12, kPicojoules = 1e12;
/// Of answers of unlike lengths, for a plan's estimate and for a run.
constexpr std::int64_t kEstimateStretches = 8, kRunStretches = 64;

/// The largest divisor of `number` that is at most `most`.
std::int64_t divisor_up_to(std::int64_t number, std::int64_t most) {
  for (std::int64_t d = std::min(number, most); d > 1; --d)
    if (number % d == 0) return d;
  return 1;
}

std::vector<std::int64_t> even_stages(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> all;
  for (std::int64_t s = 0; s < stages; ++s) all.push_back(training::even_layers(layers, stages, s));
  return all;
}

/// A forward pass of all micro-batches.
double forward_s(const training::StepCosts& step) {
  double once = 0, slowest = 0;
  for (const training::StageCosts& stage : step.stages) {
    once += stage.forward_s();
    slowest = std::max(slowest, stage.forward_s());
  }
  once += step.messages.through(std::ssize(step.stages)).time_s;
  return once + static_cast<double>(step.plan.micro_batches - 1) * slowest;
}

}  // namespace

struct CallPricer::Generation {
  models::Transformer transformer;
  DeviceIterationModel model;
  double host_s = 0;  ///< of launching a forward pass of all layers
};

CallPricer::CallPricer(const FeedbackConfig& config) : config_(config) {
  for (const training::TrainedModel& model : config.kinds)
    tables_.push_back(std::make_unique<training::CostTable>(config.machine, model));
}

CallPricer::~CallPricer() = default;

training::Plan CallPricer::plan_of(const Shape& shape, std::int64_t copy_sequences, std::int64_t micro_batches) const {
  training::Plan plan{.tensor = shape.tensor,
                      .pipeline = shape.pipeline,
                      .data = shape.data,
                      .micro_batch = copy_sequences / micro_batches,
                      .micro_batches = micro_batches};
  plan.head_stage = shape.pipeline - 1;
  return plan;
}

training::Plan CallPricer::training_plan(const Shape& shape, std::int64_t copy_sequences,
                                         std::int64_t micro_batches) const {
  training::Plan plan = plan_of(shape, copy_sequences, micro_batches);
  plan.recompute = config_.params.engine.recompute;
  if (shape.data > 1) plan.zero = config_.params.engine.zero;
  return plan;
}

training::StepCosts CallPricer::step(std::size_t kind, const training::Plan& plan) {
  return training::step_costs(*tables_[kind], config_.machine, plan,
                              even_stages(tables_[kind]->layers(), plan.pipeline));
}

const CallCost& CallPricer::cost(const Call& call, const Shape& shape) {
  const auto key = std::make_tuple(config_.kind_of[call.model], call.kind, shape);
  const auto found = known_.find(key);
  return found != known_.end() ? found->second : known_.emplace(key, price(call, shape)).first->second;
}

CallCost CallPricer::price(const Call& call, const Shape& shape) {
  const std::size_t kind = config_.kind_of[call.model];
  training::CostTable& table = *tables_[kind];
  const WorkloadParams& work = config_.params.workload;
  const std::int64_t sequences = work.sequences / (call.kind == CallKind::train ? work.minibatches : 1);
  if (shape.pipeline > table.layers())
    return {.obstacle = fmt::format("{} stages of {} layers", shape.pipeline, table.layers())};
  if (shape.tensor > config_.machine.node_devices)
    return {.obstacle = fmt::format("{} ranks share a layer, a node has {} devices", shape.tensor,
                                    config_.machine.node_devices)};
  if (sequences % shape.data != 0)
    return {.obstacle = fmt::format("{} copies do not divide {} sequences", shape.data, sequences)};
  if (sequences < shape.data * shape.pipeline)
    return {.obstacle = fmt::format("{} copies of {} stages have no micro-batch each of {} sequences", shape.data,
                                    shape.pipeline, sequences)};
  if (const auto why = models::tp_obstacle(config_.transformers[kind], shape.tensor)) return {.obstacle = *why};
  if (const auto why = table.obstacle(plan_of(shape, sequences, 1).share())) return {.obstacle = *why};
  if (const auto why = training::machine_obstacle(config_.machine, shape.devices())) return {.obstacle = *why};
  switch (call.kind) {
    case CallKind::generate:
      return generate(kind, shape);
    case CallKind::infer:
      return infer(kind, shape);
    case CallKind::train:
      return train(kind, shape);
  }
  throw std::logic_error("a kind of call that nobody prices");
}

CallCost CallPricer::train(std::size_t kind, const Shape& shape) {
  const WorkloadParams& work = config_.params.workload;
  const std::int64_t copy = work.sequences / work.minibatches / shape.data;
  CallCost best;
  for (std::int64_t most = 2 * shape.pipeline;; most *= 2) {
    const training::Plan plan = training_plan(shape, copy, divisor_up_to(copy, most));
    const training::StepCosts costs = step(kind, plan);
    best = {.time_s = training::closed_form(costs).time_s * static_cast<double>(work.minibatches),
            .micro_batches = plan.micro_batches};
    for (std::int64_t s = 0; s < plan.pipeline; ++s) {
      const training::StageCosts& stage = costs.stages[static_cast<std::size_t>(s)];
      std::int64_t kept = 0;
      for (const training::ChunkCosts& chunk : stage.chunks) kept += chunk.kept_bytes;
      kept *= std::min(plan.micro_batches, plan.pipeline - s);
      const training::StageMemory memory =
          training::stage_memory(tables_[kind]->costs(plan.share()), stage, plan, kept);
      const auto working = static_cast<double>(memory.activations + memory.working);
      const double resident = static_cast<double>(memory.total()) - working;
      best.working_bytes = std::max(best.working_bytes, working);
      best.resident_bytes = std::max(best.resident_bytes, resident);
    }
    const bool fits =
        best.resident_bytes + best.working_bytes <= static_cast<double>(config_.machine.device.memory_bytes);
    if (fits || plan.micro_batch == 1) return best;
  }
}

CallCost CallPricer::infer(std::size_t kind, const Shape& shape) {
  const std::int64_t copy = config_.params.workload.sequences / shape.data;
  CallCost best;
  for (std::int64_t most = shape.pipeline;; most *= 2) {
    const training::Plan plan = plan_of(shape, copy, divisor_up_to(copy, most));
    const training::StepCosts costs = step(kind, plan);
    const training::ModelCosts& model = tables_[kind]->costs(plan.share());
    best = {.time_s = forward_s(costs), .micro_batches = plan.micro_batches};
    for (const training::StageCosts& stage : costs.stages)
      best.resident_bytes = std::max(best.resident_bytes, static_cast<double>(stage.weight_bytes));
    for (const training::PartCosts& part : model.parts)
      best.working_bytes =
          std::max(best.working_bytes, static_cast<double>(part.working_bytes + 2 * model.boundary_bytes));
    const bool fits =
        best.resident_bytes + best.working_bytes <= static_cast<double>(config_.machine.device.memory_bytes);
    if (fits || plan.micro_batch == 1) return best;
  }
}

CallPricer::Generation& CallPricer::generation(std::size_t kind, std::int64_t tensor) {
  std::unique_ptr<Generation>& known = generations_[{kind, tensor}];
  if (known) return *known;
  const models::ModelConfig& config = config_.transformers[kind];
  models::Transformer transformer =
      models::build_transformer(config, config.dtype.value_or(hw::DType::bf16), tensor, {config_.file, "/models"});
  DeviceIterationModel model(transformer, config_.machine.device);
  known = std::make_unique<Generation>(Generation{std::move(transformer), std::move(model)});
  const training::ModelCosts& costs = tables_[kind]->costs({.tensor = tensor});
  using enum training::PartName;
  known->host_s = static_cast<double>(costs.layers) * costs.part(layer).forward.host_s +
                  costs.part(embedding).forward.host_s + costs.part(head).forward.host_s;
  return *known;
}

CallWork CallPricer::generated(std::size_t kind, const Shape& shape, std::int64_t sequences, std::int64_t context,
                               bool prompt) {
  Generation& own = generation(kind, shape.tensor);
  BatchShape batch{.sequences = sequences, .logit_rows = sequences};
  Segment segment{.first = 0, .last = static_cast<std::int32_t>(own.transformer.config.layers)};
  if (prompt) {
    segment.tokens = sequences * context;
    for (std::int64_t i = 0; i < sequences; ++i) segment.prefill.add(context, 0);
  } else {
    segment.tokens = sequences;
    segment.decode = {sequences, sequences * context};
  }
  batch.segments.push_back(segment);
  IterationCost cost;
  own.model.cost(batch, cost);
  const double device = static_cast<double>(cost.time_ps) / kPicoseconds;
  const double whole = config_.params.engine.captured && !prompt ? device : std::max(device, own.host_s);
  const double stage = whole / static_cast<double>(shape.pipeline);
  const double joules = static_cast<double>(cost.energy_pj()) / kPicojoules;
  if (shape.pipeline == 1) return {stage, joules};
  const double bytes = static_cast<double>(segment.tokens * own.transformer.config.hidden_size) *
                       static_cast<double>(hw::bytes_of(own.transformer.dtype)) / static_cast<double>(shape.tensor);
  const hw::GroupCost message =
      training::slowest_message(config_.machine, shape.data * shape.tensor, shape.pipeline, bytes);
  return {stage + message.time_s, joules + message.energy_j * static_cast<double>((shape.pipeline - 1) * shape.tensor)};
}

CallWork CallPricer::unlike_answers(std::size_t kind, const Shape& shape, std::int64_t waves, std::int64_t stretches) {
  const WorkloadParams& work = config_.params.workload;
  const std::int64_t copy = work.sequences / shape.data, stages = shape.pipeline;
  const std::int64_t wave = (copy + waves - 1) / waves;
  const auto micro = [&](double sequences) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(sequences / static_cast<double>(stages))));
  };
  CallWork all;
  for (std::int64_t c = 0; c < shape.data; ++c) {
    CallWork own;
    for (std::int64_t first = 0; first < copy; first += wave) {
      std::vector<std::int64_t> lengths;  // sequences go to copies in turns
      for (std::int64_t i = first; i < std::min(copy, first + wave); ++i)
        lengths.push_back(config_.answers[static_cast<std::size_t>(c + shape.data * i)]);
      const auto count = static_cast<double>(lengths.size());
      const CallWork prompts = generated(kind, shape, micro(count), work.prompt, true);
      own += {static_cast<double>(2 * stages - 1) * prompts.time_s, static_cast<double>(stages) * prompts.energy_j};
      const std::int64_t longest = std::ranges::max(lengths);
      const std::int64_t pieces = std::min(stretches, longest - 1);
      for (std::int64_t p = 0; p < pieces; ++p) {  // the first token is of the prompt's pass
        const std::int64_t begin = 1 + (longest - 1) * p / pieces, end = 1 + (longest - 1) * (p + 1) / pieces;
        const auto tokens = static_cast<double>(end - begin);
        double written = 0;
        for (const std::int64_t length : lengths)
          written += static_cast<double>(std::clamp<std::int64_t>(length - begin, 0, end - begin));
        own += generated(kind, shape, micro(written / tokens), work.prompt + (begin + end - 1) / 2, false)
                   .times(static_cast<double>(stages) * tokens);
      }
    }
    all.time_s = std::max(all.time_s, own.time_s);
    all.energy_j += own.energy_j;
  }
  return all;
}

CallCost CallPricer::generate(std::size_t kind, const Shape& shape) {
  const WorkloadParams& work = config_.params.workload;
  const std::int64_t copy = work.sequences / shape.data, stages = shape.pipeline;
  const Generation& own = generation(kind, shape.tensor);
  const auto part = static_cast<double>(stages);
  CallCost best;
  for (std::int64_t waves = 1;; waves *= 2) {
    const std::int64_t wave = (copy + waves - 1) / waves, micro = (wave + stages - 1) / stages;
    const double kv = static_cast<double>(models::kv_bytes_per_token(own.transformer)) *
                      static_cast<double>(wave * (work.prompt + config_.answer_tokens));
    double time = 0;
    if (config_.answers.empty()) {
      const double prompts = (2 * part - 1) * generated(kind, shape, micro, work.prompt, true).time_s;
      const double decode =
          work.generated > 1 ? generated(kind, shape, micro, work.prompt + (work.generated + 1) / 2, false).time_s : 0;
      time = static_cast<double>(waves) * (prompts + static_cast<double>(work.generated - 1) * part * decode);
    }
    best = {.time_s = time,
            .resident_bytes = static_cast<double>(models::weight_bytes(own.transformer)) / part,
            .working_bytes = kv / part,
            .micro_batches = stages,
            .waves = waves};
    const double room =
        config_.params.engine.generation_memory * static_cast<double>(config_.machine.device.memory_bytes);
    if (best.resident_bytes + best.working_bytes > room && wave > stages) continue;
    if (!config_.answers.empty()) best.time_s = unlike_answers(kind, shape, waves, kEstimateStretches).time_s;
    return best;
  }
}

CallWork CallPricer::run(const Call& call, const Shape& shape) {
  const std::size_t kind = config_.kind_of[call.model];
  const CallCost& known = cost(call, shape);
  switch (call.kind) {
    case CallKind::generate:
      return run_generation(kind, shape, known.waves);
    case CallKind::infer:
      return {known.time_s, inference_j(kind, shape, known.micro_batches)};
    case CallKind::train:
      return run_training(kind, shape, known.micro_batches);
  }
  throw std::logic_error("a kind of call that nobody prices");
}

CallWork CallPricer::run_generation(std::size_t kind, const Shape& shape, std::int64_t waves) {
  if (!config_.answers.empty()) return unlike_answers(kind, shape, waves, kRunStretches);
  const WorkloadParams& work = config_.params.workload;
  const std::int64_t copy = work.sequences / shape.data, stages = shape.pipeline;
  const std::int64_t wave = (copy + waves - 1) / waves, micro = (wave + stages - 1) / stages;
  const CallWork prompts = generated(kind, shape, micro, work.prompt, true);
  CallWork sum{static_cast<double>(2 * stages - 1) * prompts.time_s, static_cast<double>(stages) * prompts.energy_j};
  for (std::int64_t token = 1; token < work.generated; ++token)
    sum += generated(kind, shape, micro, work.prompt + token, false).times(static_cast<double>(stages));
  sum = sum.times(static_cast<double>(waves));
  sum.energy_j *= static_cast<double>(shape.data);
  return sum;
}

double CallPricer::inference_j(std::size_t kind, const Shape& shape, std::int64_t micro_batches) {
  const std::int64_t copy = config_.params.workload.sequences / shape.data;
  const training::Plan plan = plan_of(shape, copy, micro_batches);
  const training::StepCosts costs = step(kind, plan);
  double once = costs.messages.through(plan.pipeline).energy_j;
  for (const training::StageCosts& stage : costs.stages)
    for (const training::ChunkCosts& chunk : stage.chunks) once += chunk.forward.energy_j;
  return once * static_cast<double>(plan.stage_ranks() * micro_batches);
}

CallWork CallPricer::run_training(std::size_t kind, const Shape& shape, std::int64_t micro_batches) {
  const WorkloadParams& work = config_.params.workload;
  const training::Plan plan = training_plan(shape, work.sequences / work.minibatches / shape.data, micro_batches);
  const training::StepCosts costs = step(kind, plan);
  const training::StepRun run =
      training::run_step(costs, *config_.schedule.make(), tick_scale(config_.params.run.tick_s));
  double of_rank = 0;
  for (const training::MessageRun& message : run.messages)
    of_rank += costs.messages.between(message.from, message.to).energy_j;
  for (const training::StageCosts& stage : costs.stages) of_rank += training::stage_energy(stage, micro_batches);
  return CallWork{run.times.time_s, of_rank * static_cast<double>(plan.stage_ranks())}.times(
      static_cast<double>(work.minibatches));
}

double CallPricer::load_s(const Call& call, const Shape& shape) {
  if (!config_.in_host(call.model)) return 0;
  return hw::transfer_time(*config_.machine.host_link, static_cast<std::int64_t>(cost(call, shape).resident_bytes));
}

double CallPricer::weight_bytes(std::size_t model) const {
  const models::ModelConfig& config = config_.transformers[config_.kind_of[model]];
  std::int64_t parameters = models::parameters(config);
  if (config_.params.models[model].value_head && !config.tie_word_embeddings)
    parameters -= (config.vocab_size - 1) * config.hidden_size;
  return static_cast<double>(parameters) * static_cast<double>(hw::bytes_of(config.dtype.value_or(hw::DType::bf16)));
}

double CallPricer::counted_flops() const {
  const WorkloadParams& work = config_.params.workload;
  // Of `tokens` that attend to `pairs` pairs.
  const auto forward = [](const models::ModelConfig& m, double tokens, double pairs) {
    const auto hidden = static_cast<double>(m.hidden_size);
    return 2 * static_cast<double>(m.layers) *
               (4 * tokens * hidden * hidden + 2 * pairs * hidden +
                3 * tokens * hidden * static_cast<double>(m.intermediate_size)) +
           4 * tokens * static_cast<double>(m.vocab_size) * hidden;
  };
  const auto prompt = static_cast<double>(work.prompt);
  double sum = 0;
  const auto count = [&](const Call& call, double sequences, double answer) {
    const models::ModelConfig& m = config_.transformers[config_.kind_of[call.model]];
    const double length = prompt + answer;
    if (call.kind != CallKind::generate) {
      sum += (call.kind == CallKind::train ? 4 : 1) * forward(m, sequences * length, sequences * length * length);
      return;
    }
    const double contexts = answer * (prompt + length - 1) / 2;
    sum += forward(m, sequences * prompt, sequences * prompt * prompt) +
           forward(m, sequences * answer, sequences * contexts);
  };
  for (const Call& call : config_.calls) {
    if (config_.answers.empty()) count(call, static_cast<double>(work.sequences), static_cast<double>(work.generated));
    for (const std::int64_t answer : config_.answers) count(call, 1, static_cast<double>(answer));
  }
  return sum;
}

}  // namespace orrery::experiments::feedback
