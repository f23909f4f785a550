#include "experiments/systems/serving/pricing/kernel_cost.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <variant>

namespace orrery::experiments {
namespace {

std::int64_t whole(double cost, const char* unit) {
  if (!(cost < 1e15))
    throw std::overflow_error(fmt::format("a kernel of {:.3g} {}: check the figures of the part", cost * 1e-12, unit));
  return static_cast<std::int64_t>(cost);
}

}  // namespace

std::int64_t kernel_ps(double seconds) {
  return whole(std::ceil(seconds * 1e12), "s");
}
std::int64_t kernel_pj(double joules) {
  return whole(std::floor(joules * 1e12 + 0.5), "J");
}

KernelCost kernel_cost(const hw::Device& device, const hw::Kernel& kernel, std::int64_t ranks) {
  const hw::Cost cost = device.cost(kernel);
  const bool streams = std::holds_alternative<hw::Streaming>(kernel.shape);
  const std::int64_t ps = kernel_ps(cost.time_s);
  return {.op = kernel.op,
          .time_ps = ps,
          .flops = streams ? 0 : static_cast<std::int64_t>(cost.flops) * ranks,
          .dram_bytes = cost.beside ? 0 : static_cast<std::int64_t>(cost.dram_bytes) * ranks,
          .launches = 1,
          .beside_ps = cost.beside ? ps : 0,
          .compute_pj = kernel_pj(cost.compute_energy_j) * ranks,
          .memory_pj = kernel_pj(cost.memory_energy_j) * ranks};
}

KernelCost collective_cost(const hw::Device& device, const CollectiveAmong& among, hw::LibraryCall call,
                           std::int64_t bytes, hw::OpClass op, std::int64_t devices) {
  const hw::LinkParams& link = among.link != nullptr ? *among.link : device.link;
  hw::CollectiveCost cost = hw::library_collective(link, call, among.ranks, bytes);
  cost.time_s = among.time_s.value_or(cost.time_s);
  const auto sent = static_cast<std::int64_t>(std::ceil(cost.link_bytes));
  return {.op = op,
          .time_ps = kernel_ps(cost.time_s),
          .launches = 1,
          .wire_bytes = among.lanes ? 0 : sent,
          .exchange_bytes = among.lanes ? sent : 0,
          .compute_pj = kernel_pj(device.power.active_w * cost.time_s) * devices,
          .network_pj = kernel_pj(cost.link_energy_j) * devices};
}

}  // namespace orrery::experiments
