#include "experiments/systems/experts/prices.hpp"

#include <algorithm>
#include <cmath>

#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/pricing/halves_in_turns.hpp"

namespace orrery::experiments::experts {
namespace {

ExpertMachine machine_of(const Config& config) {
  const MachineParams& m = config.sections.machine;
  return {.gpu = *config.gpu,
          .devices = m.devices,
          .host = config.host,
          .sockets = m.host.sockets,
          .host_efficiency = m.host.efficiency,
          .host_gap_s = m.host.layer_gap_s,
          .link = config.link,
          .storage = config.storage};
}

/// Experts of other sizes, or in other formats, than the model's are kinds of their own.
ExpertWeights weights_of(const Config& config, const models::Transformer& gpu, const models::Transformer& host) {
  const ModelParams& model = config.sections.model;
  const MachineParams& m = config.sections.machine;
  ExpertWeights out = expert_weights(gpu, host, config.formats.dtype, m.host.sockets);
  const ExpertProducts expert = out.kinds.front();
  if (!model.modules.empty()) {
    out.kinds.clear();
    for (const std::int64_t size : model.modules) out.kinds.push_back(expert_products(gpu, 1, size / m.devices));
  }
  if (model.bits) {
    out.kinds.clear();
    for (const BitLevel& level : model.bits->levels) {
      ExpertProducts& kind = out.kinds.emplace_back(expert);
      for (ExpertProduct& p : kind.products) p.weights = level.weights;
    }
  }
  return out;
}

}  // namespace

Prices::Models Prices::models_of(const Config& config) {
  return {models::build_transformer(config.model, config.formats, {.tp = config.sections.machine.devices}),
          models::build_transformer(config.model, config.host_formats, {})};
}

Prices::Prices(const Config& config, std::int64_t parts) : Prices(config, parts, models_of(config)) {}

Prices::Prices(const Config& config, std::int64_t parts, const Models& models)
    : ExpertTimes(machine_of(config), weights_of(config, models.gpu, models.host)) {
  const Sections& s = config.sections;
  const models::Transformer& t = models.gpu;
  const std::int64_t layers = config.model.layers, expert_layers = config.expert_layers();
  dense_bytes_ = models::weight_bytes(t) - expert_layers * config.model.experts.count * weights().gpu_bytes;
  const WorkloadParams& w = s.workload;
  const bool divides = w.batch / s.machine.ranks >= parts;  // texts, else the tokens of each
  const std::int64_t texts = w.batch / s.machine.ranks / (divides ? parts : 1);
  const std::int64_t chunk = std::max<std::int64_t>(1, w.chunk / (divides ? 1 : parts));
  kv_bytes_ = s.policies.pool * texts *
              ((w.context + chunk) * models::kv_bytes_per_token(t) + models::state_bytes_per_sequence(t));
  idle_w_ = config.gpu->power.idle_w * static_cast<double>(s.machine.devices * s.machine.ranks);
  if (config.host) idle_w_ += config.host->power.idle_w * static_cast<double>(s.machine.host.sockets);

  DeviceIterationModel step(t, *config.gpu);
  BatchShape shape;
  shape.sequences = shape.logit_rows = texts;
  Segment segment{.first = 0, .last = static_cast<std::int32_t>(layers), .tokens = texts * chunk};
  for (std::int64_t text = 0; text < texts; ++text) {
    if (chunk == 1)
      segment.decode.add(w.context + 1);
    else
      segment.prefill.add(chunk, w.context);
  }
  shape.segments.push_back(segment);
  IterationCost cost;
  step.cost(shape, cost);
  const auto of = [&](hw::OpClass op) { return cost.class_ps[static_cast<std::size_t>(op)]; };
  for (std::size_t i = 0; i < hw::kOpClasses; ++i) {
    const auto op = static_cast<hw::OpClass>(i);
    if (op == hw::OpClass::expert_up || op == hw::OpClass::expert_down) continue;
    dense_j_ += static_cast<double>(cost.class_pj[i]) * 1e-12;
    behind_ps_ += std::llround(behind_dispatch(op) * static_cast<double>(cost.class_ps[i]));
  }
  dense_ps_ = cost.time_ps - of(hw::OpClass::expert_up) - of(hw::OpClass::expert_down);
  make_slices(config);
}

/// What levels add to each other, and what all experts of a layer take.
void Prices::make_slices(const Config& config) {
  const ModelParams& model = config.sections.model;
  const std::int64_t count = config.model.experts.count;
  const hw::DType dtype = weights().dtype;
  layer_bytes_ = count * weights().gpu_bytes;
  if (!model.modules.empty()) {
    layer_bytes_ = 0;
    for (const ExpertProducts& kind : weights().kinds) layer_bytes_ += kind.bytes(dtype);
  }
  if (!model.bits) return;
  std::int64_t below = 0, all = 0;
  for (const ExpertProducts& kind : weights().kinds) {
    const std::int64_t bytes = kind.bytes(dtype) - (model.bits->nested ? below : 0);
    slices_.push_back(slice_of(bytes, bytes * config.sections.machine.devices));
    below = kind.bytes(dtype);
    all += bytes;
  }
  layer_bytes_ = count * all;
}

}  // namespace orrery::experiments::experts
