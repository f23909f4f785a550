#include "experiments/experts/expert_times.hpp"

#include <algorithm>
#include <cmath>

#include "hw/base/kernel_builders.hpp"

namespace orrery::experiments {
namespace {

/// Numbers of rows in the prices that are kept: 64 MiB. Of a long run nearly every launch has rows of its own.
constexpr std::size_t kMostKept = std::size_t{1} << 23;

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
        ExpertProduct piece{*shape, op.op};
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
  for (const ExpertProduct& p : products) sum += hw::weight_bytes(p.weights, dtype, p.n * p.k);
  return sum;
}

ExpertWeights expert_weights(const models::Transformer& gpu, const models::Transformer& host, hw::DType dtype,
                             std::int64_t sockets) {
  const ExpertProducts expert = expert_products(gpu);
  return {.dtype = dtype,
          .kinds = {expert},
          .socket = expert_products(host, sockets),
          .gpu_bytes = expert.bytes(dtype),
          .host_bytes = expert_products(host).bytes(dtype)};
}

ExpertTimes::ExpertTimes(ExpertMachine machine, ExpertWeights weights)
    : machine_(std::move(machine)),
      weights_(std::move(weights)),
      whole_(slice_of(weights_.gpu_bytes, weights_.host_bytes)),
      host_gap_ps_(std::llround(machine_.host_gap_s * 1e12)),
      gpu_prices_(weights_.kinds.size()) {}

Slice ExpertTimes::slice_of(std::int64_t gpu_bytes, std::int64_t host_bytes) const {
  const auto devices = static_cast<double>(machine_.devices);
  Slice out{.bytes = gpu_bytes,
            .copy_ps = to_ps(hw::transfer_time(machine_.link, gpu_bytes)),
            .copy_j = devices * hw::transfer_energy(machine_.link, gpu_bytes)};
  if (machine_.storage) {
    out.read_ps = to_ps(hw::transfer_time(*machine_.storage, hw::TierDirection::read, host_bytes));
    out.read_j = hw::transfer_energy(*machine_.storage, hw::TierDirection::read, host_bytes);
  }
  return out;
}

double ExpertTimes::flops(std::size_t kind) const {
  double sum = 0;
  for (const ExpertProduct& p : weights_.kinds[kind].products)
    sum += 2.0 * static_cast<double>(p.n) * static_cast<double>(p.k);
  return sum * static_cast<double>(machine_.devices);
}

std::int64_t ExpertTimes::weight_bytes(std::size_t kind) const {
  return weights_.kinds[kind].bytes(weights_.dtype) * machine_.devices;
}

Priced ExpertTimes::price(const hw::Device& device, hw::DType dtype, const ExpertProducts& expert,
                          std::span<const std::int64_t> rows, std::int64_t devices) {
  Priced sum;
  for (const ExpertProduct& p : expert.products) {
    hw::GroupedGemm grouped = hw::grouped_gemm(rows, p.n, p.k);
    grouped.weights = p.weights;
    const auto cost = device.cost({.op = hw::OpClass::expert_up, .dtype = dtype, .shape = grouped});
    const auto ways = static_cast<double>(devices);
    Priced one{.time_ps = to_ps(cost.time_s),
               .energy_j = ways * (cost.compute_energy_j + cost.memory_energy_j),
               .memory_j = ways * cost.memory_energy_j};
    if (p.op == hw::OpClass::expert_down) {
      one.down_ps = one.time_ps;
      one.down_j = one.energy_j;
    }
    sum.add(one);
  }
  return sum;
}

/// Where the price of these rows is kept; whether it has yet to be made.
std::pair<Priced*, bool> ExpertTimes::find(ByRows& known, std::span<const std::int64_t> rows) {
  std::vector<std::int64_t> key(rows.begin(), rows.end());
  std::ranges::sort(key);
  if (known.numbers >= kMostKept) known = {};
  const auto [at, fresh] = known.prices.try_emplace(std::move(key));
  if (fresh) known.numbers += rows.size();
  return {&at->second, fresh};
}

Priced ExpertTimes::gpu(std::span<const std::int64_t> rows, std::size_t kind) const {
  if (rows.empty()) return {};
  const auto [kept, fresh] = find(gpu_prices_[kind], rows);
  if (fresh) *kept = price(machine_.gpu, weights_.dtype, weights_.kinds[kind], rows, machine_.devices);
  return *kept;
}

std::int64_t ExpertTimes::host_ps(std::int64_t tokens) const {
  const std::vector<std::int64_t> rows(8, tokens);
  return host_ps(rows) / static_cast<std::int64_t>(rows.size());
}

Priced ExpertTimes::host(std::span<const std::int64_t> rows) const {
  if (rows.empty() || !machine_.host) return {};
  const auto [kept, fresh] = find(host_prices_, rows);
  if (fresh) {
    *kept = price(*machine_.host, weights_.dtype, weights_.socket, rows, machine_.sockets);
    kept->time_ps = static_cast<std::int64_t>(std::ceil(static_cast<double>(kept->time_ps) / machine_.host_efficiency));
  }
  return *kept;
}

}  // namespace orrery::experiments
