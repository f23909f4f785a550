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

void add_kernel(const hw::Device& device, const hw::Kernel& kernel, std::int64_t ranks, IterationCost& out) {
  const hw::Cost cost = device.cost(kernel);
  const auto op = static_cast<std::size_t>(kernel.op);
  const std::int64_t ps = kernel_ps(cost.time_s);
  const std::int64_t compute_pj = kernel_pj(cost.compute_energy_j) * ranks;
  const std::int64_t memory_pj = kernel_pj(cost.memory_energy_j) * ranks;
  out.time_ps += ps;
  ++out.launches;
  out.class_ps[op] += ps;
  out.compute_pj += compute_pj;
  out.memory_pj += memory_pj;
  out.class_pj[op] += compute_pj + memory_pj;
  if (!std::holds_alternative<hw::Streaming>(kernel.shape)) out.flops += static_cast<std::int64_t>(cost.flops) * ranks;
  if (cost.beside) {
    out.beside_ps += ps;
  } else {
    out.dram_bytes += static_cast<std::int64_t>(cost.dram_bytes) * ranks;
  }
}

void add_collective(const hw::Device& device, hw::LibraryCall call, std::int64_t ranks, std::int64_t bytes,
                    hw::OpClass op, std::int64_t devices, IterationCost& out) {
  const hw::CollectiveCost cost = hw::library_collective(device.link, call, ranks, bytes);
  const auto place = static_cast<std::size_t>(op);
  const std::int64_t ps = kernel_ps(cost.time_s);
  const std::int64_t link_pj = kernel_pj(cost.link_energy_j) * devices;
  const std::int64_t active_pj = kernel_pj(device.power.active_w * cost.time_s) * devices;
  out.time_ps += ps;
  ++out.launches;
  out.wire_bytes += static_cast<std::int64_t>(std::ceil(cost.link_bytes));
  out.class_ps[place] += ps;
  out.network_pj += link_pj;
  out.compute_pj += active_pj;
  out.class_pj[place] += link_pj + active_pj;
}

}  // namespace orrery::experiments
