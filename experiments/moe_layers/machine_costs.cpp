#include "experiments/moe_layers/machine_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "hw/base/kernel.hpp"
#include "sim/relative_line.hpp"

namespace orrery::experiments::moe_layers {
namespace {

/// Of an element of a message, and of a product's operands: 16-bit floats.
constexpr hw::DType kType = hw::DType::bf16;
/// Sizes that a message's line is fitted on, from the least to the most by equal factors.
constexpr int kSizes = 8;

struct Span {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  void add(double size) {
    least = std::min(least, size);
    most = std::max(most, size);
  }
};

class Fits {
 public:
  explicit Fits(const training::TrainingMachine& machine) : machine_(machine) {}

  /// A collective on so many elements, as library_collective counts them.
  LinearCost message(hw::LibraryCall call, const hw::RankGroup& group, const Span& sizes) {
    if (group.ranks < 2) return {};
    std::vector<sim::LinePoint> points;
    for (int i = 0; i < kSizes; ++i) {
      const double size = sizes.least * std::pow(sizes.most / sizes.least, i / (kSizes - 1.0));
      const double bytes = size * static_cast<double>(hw::bytes_of(kType));
      points.push_back({size, training::collective(machine_, call, group, bytes).time_s});
    }
    return line(points);
  }

  LinearCost line(const std::vector<sim::LinePoint>& points) {
    const sim::RelativeLine fit = sim::fit_relative_line(points);
    furthest_ = std::max(furthest_, fit.furthest);
    return {fit.start, fit.slope};
  }

  /// A product of m rows, by its multiplications.
  sim::LinePoint product(double m, std::int64_t n, std::int64_t k) const {
    const hw::Gemm shape{std::max<std::int64_t>(1, std::llround(m)), std::max<std::int64_t>(1, n), k};
    const double seconds = machine_.device.cost({hw::OpClass::expert_up, kType, shape}).time_s;
    return {static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k),
            seconds / machine_.in_situ.kernel};
  }

  double furthest() const { return furthest_; }

 private:
  const training::TrainingMachine& machine_;
  double furthest_ = 0;
};

}  // namespace

std::optional<std::string> layers_obstacle(const training::TrainingMachine& machine, std::int64_t shared_by,
                                           std::int64_t tensor) {
  const std::int64_t node = std::min(machine.devices, machine.node_devices);
  if (shared_by > node) return fmt::format("{} ranks share an expert, a node has {} devices", shared_by, node);
  if (tensor > node) return fmt::format("{} ranks share attention, a node has {} devices", tensor, node);
  if (machine.devices % node != 0) return fmt::format("{} devices do not fill nodes of {}", machine.devices, node);
  return training::machine_obstacle(machine, machine.devices);
}

FittedCosts machine_costs(const training::TrainingMachine& machine, std::span<const Layer> layers, std::int64_t tensor,
                          std::int64_t most_chunks) {
  Fits fits(machine);
  Span exchanged, gathered, summed;
  std::vector<sim::LinePoint> products;
  for (const Layer& layer : layers) {
    const auto width = static_cast<double>(layer.width), tokens = static_cast<double>(layer.batch * layer.sequence);
    for (const std::int64_t chunks : {std::int64_t{1}, most_chunks}) {
      const double rows = tokens * layer.factor * layer.imbalance / static_cast<double>(chunks);
      gathered.add(rows * width);
      exchanged.add(rows * width / static_cast<double>(layer.shared_by));
      sim::LinePoint all = fits.product(rows, layer.inner / layer.shared_by, layer.width);
      all.x *= static_cast<double>(layer.products);
      all.y *= static_cast<double>(layer.products);
      products.push_back(all);
    }
    gathered.add(tokens * width);  // of attention
    summed.add(4 * width * width / static_cast<double>(tensor));
    products.push_back(fits.product(tokens, 4 * layer.width / tensor, layer.width));
  }
  const Layer& any = layers.front();
  const std::int64_t node = std::min(machine.devices, machine.node_devices);
  const hw::RankGroup nodes = training::rank_group(machine, machine.devices / node, node);
  const hw::RankGroup inside = training::rank_group(machine, any.shared_by, 1);
  FittedCosts fitted;
  fitted.costs.exchange = fits.message(hw::LibraryCall::all_to_all, nodes, exchanged);
  fitted.costs.gather = fits.message(hw::LibraryCall::all_gather, inside, gathered);
  fitted.costs.scatter = fits.message(hw::LibraryCall::reduce_scatter, inside, gathered);
  fitted.costs.all_reduce = fits.message(hw::LibraryCall::all_reduce, nodes, summed);
  fitted.costs.product = fits.line(products);
  fitted.furthest = fits.furthest();
  return fitted;
}

}  // namespace orrery::experiments::moe_layers
