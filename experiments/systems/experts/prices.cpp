#include "experiments/systems/experts/prices.hpp"

#include <algorithm>
#include <cmath>

#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/pricing/halves_in_turns.hpp"
#include "hw/base/kernel_builders.hpp"

namespace orrery::experiments::experts {
namespace {

/// Prices that are kept: of a long run of ranks nearly every launch has rows of its own.
constexpr std::size_t kMostKept = 1 << 20;

std::int64_t to_ps(double seconds) {
  return std::llround(std::ceil(seconds * 1e12));
}

}  // namespace

ExpertProducts expert_products(const models::Transformer& t, std::int64_t parts, std::optional<std::int64_t> size) {
  ExpertProducts out;
  if (size == 0) return out;
  for (const models::LayerKind& kind : t.kinds) {
    if (!kind.experts) continue;
    for (const models::Op& op : kind.ops)
      if (const auto* shape = std::get_if<models::ExpertShape>(&op.shape)) {
        models::ExpertShape piece = *shape;
        // The intermediate size is what is divided: columns of the first product, rows of the second.
        std::int64_t& side = op.op == hw::OpClass::expert_down ? piece.k : piece.n;
        if (size) side = side / t.expert_intermediate_size * *size;
        side /= parts;
        out.products.push_back(piece);
      }
    break;
  }
  return out;
}

std::int64_t ExpertProducts::bytes(hw::DType dtype) const {
  std::int64_t sum = 0;
  for (const models::ExpertShape& p : products) sum += hw::weight_bytes(p.weights, dtype, p.n * p.k);
  return sum;
}

Prices::Prices(const Config& config, std::int64_t parts) : config_(config), dtype_(config.formats.dtype) {
  const Sections& s = config.sections;
  const models::Transformer t = models::build_transformer(config.model, config.formats, {.tp = s.machine.devices});
  const ExpertProducts expert = expert_products(t, 1);
  const std::int64_t layers = config.model.layers, expert_layers = config.expert_layers();
  dense_bytes_ = models::weight_bytes(t) - expert_layers * config.model.experts.count * expert.bytes(dtype_);
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

  const models::Transformer whole = models::build_transformer(config.model, config.host_formats, {});
  host_ = expert_products(whole, s.machine.host.sockets);
  host_bytes_ = expert_products(whole, 1).bytes(dtype_);
  whole_ = slice_of(expert.bytes(dtype_), host_bytes_);
  make_kinds(t);
}

Slice Prices::slice_of(std::int64_t gpu_bytes, std::int64_t host_bytes) const {
  const auto devices = static_cast<double>(config_.sections.machine.devices);
  Slice out{.bytes = gpu_bytes,
            .copy_ps = to_ps(hw::transfer_time(config_.link, gpu_bytes)),
            .copy_j = devices * hw::transfer_energy(config_.link, gpu_bytes)};
  if (config_.storage) {
    out.read_ps = to_ps(hw::transfer_time(*config_.storage, hw::TierDirection::read, host_bytes));
    out.read_j = hw::transfer_energy(*config_.storage, hw::TierDirection::read, host_bytes);
  }
  return out;
}

/// Experts of other sizes, or in other formats, than the model's.
void Prices::make_kinds(const models::Transformer& t) {
  const ModelParams& model = config_.sections.model;
  const std::int64_t devices = config_.sections.machine.devices, count = config_.model.experts.count;
  const ExpertProducts expert = expert_products(t);
  gpu_ = {expert};
  layer_bytes_ = count * expert.bytes(dtype_);
  if (!model.modules.empty()) {
    gpu_.clear();
    layer_bytes_ = 0;
    for (const std::int64_t size : model.modules) {
      gpu_.push_back(expert_products(t, 1, size / devices));
      layer_bytes_ += gpu_.back().bytes(dtype_);
    }
  }
  if (model.bits) {
    gpu_.clear();
    std::int64_t below = 0, all = 0;
    for (const BitLevel& level : model.bits->levels) {
      ExpertProducts& kind = gpu_.emplace_back(expert);
      for (models::ExpertShape& p : kind.products) p.weights = level.weights;
      const std::int64_t bytes = kind.bytes(dtype_) - (model.bits->nested ? below : 0);
      slices_.push_back(slice_of(bytes, bytes * devices));
      below = kind.bytes(dtype_);
      all += bytes;
    }
    layer_bytes_ = count * all;
  }
  gpu_prices_.resize(gpu_.size());
}

double Prices::flops(std::size_t kind) const {
  double sum = 0;
  for (const models::ExpertShape& p : gpu_[kind].products)
    sum += 2.0 * static_cast<double>(p.n) * static_cast<double>(p.k);
  return sum * static_cast<double>(config_.sections.machine.devices);
}

std::int64_t Prices::weight_bytes(std::size_t kind) const {
  return gpu_[kind].bytes(dtype_) * config_.sections.machine.devices;
}

Priced Prices::price(const hw::Device& device, hw::DType dtype, const ExpertProducts& expert,
                     std::span<const std::int64_t> rows, std::int64_t devices) {
  Priced sum;
  for (const models::ExpertShape& p : expert.products) {
    hw::GroupedGemm grouped = hw::grouped_gemm(rows, p.n, p.k);
    grouped.weights = p.weights;
    const auto cost = device.cost({.op = hw::OpClass::expert_up, .dtype = dtype, .shape = grouped});
    sum.time_ps += to_ps(cost.time_s);
    sum.energy_j += static_cast<double>(devices) * (cost.compute_energy_j + cost.memory_energy_j);
  }
  return sum;
}

Priced Prices::gpu(std::span<const std::int64_t> rows, std::size_t kind) const {
  if (rows.empty()) return {};
  std::vector<std::int64_t> key(rows.begin(), rows.end());
  std::ranges::sort(key);
  ByRows& prices = gpu_prices_[kind];
  if (prices.size() >= kMostKept) prices.clear();
  const auto [at, fresh] = prices.try_emplace(std::move(key));
  if (fresh) at->second = price(*config_.gpu, dtype_, gpu_[kind], at->first, config_.sections.machine.devices);
  return at->second;
}

std::int64_t Prices::host_ps(std::int64_t tokens) const {
  const std::vector<std::int64_t> rows(8, tokens);
  return host_ps(rows) / static_cast<std::int64_t>(rows.size());
}

Priced Prices::host(std::span<const std::int64_t> rows) const {
  if (rows.empty() || !config_.host) return {};
  std::vector<std::int64_t> key(rows.begin(), rows.end());
  std::ranges::sort(key);
  if (host_prices_.size() >= kMostKept) host_prices_.clear();
  const auto [at, fresh] = host_prices_.try_emplace(std::move(key));
  if (fresh) {
    const HostParams& params = config_.sections.machine.host;
    at->second = price(*config_.host, dtype_, host_, at->first, params.sockets);
    at->second.time_ps =
        static_cast<std::int64_t>(std::ceil(static_cast<double>(at->second.time_ps) / params.efficiency));
  }
  return at->second;
}

}  // namespace orrery::experiments::experts
