// The cost of a kernel as integers: time rounded up to a whole picosecond, energies to the nearest picojoule.
#pragma once

#include <cstdint>
#include <optional>

#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "hw/device/device.hpp"
#include "hw/network/library_collective.hpp"

namespace orrery::experiments {

/// Throw std::overflow_error from 1e15 on (1000 s, or 1000 J), so that sums over layers, ranks and kernels fit.
std::int64_t kernel_ps(double seconds);
std::int64_t kernel_pj(double joules);

/// Of a kernel that `ranks` devices run at once: time is of one, all else of all of them. FLOPs are the model's, which
/// MFU counts: products and attention, not passes over memory.
KernelCost kernel_cost(const hw::Device& device, const hw::Kernel& kernel, std::int64_t ranks);

/// Who takes part in a collective.
struct CollectiveAmong {
  std::int64_t ranks = 1;
  bool lanes = false;                    ///< those of all lanes, not of tensor parallelism alone
  const hw::LinkParams* link = nullptr;  ///< that they have; null: the device's
  std::optional<double> time_s;          ///< where other kernels than the library's move the data
};

/// Of a library's collective among some of the replica's `devices`, which all take part in one. Bytes of an all-gather
/// are what it leaves on every rank. The kernel that moves the data keeps the device awake as any other does.
KernelCost collective_cost(const hw::Device& device, const CollectiveAmong& among, hw::LibraryCall call,
                           std::int64_t bytes, hw::OpClass op, std::int64_t devices);

}  // namespace orrery::experiments
