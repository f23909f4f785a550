// Iterations of a decoder on devices under tensor parallelism: kernels priced by a cost model, collectives by their
// closed form.
//
// What is launched comes from DecoderKernels: the model's own list, or an operator graph that passes have rewritten.
// Dense parts depend on the number of tokens alone, so their cost is computed once for each number that occurs and
// kept, by kind of layer; with experts they depend on where tokens come from as well, and the first kMixes batches with
// prompts are kept too. Attention is priced from its sums at every call. Each kernel's time is rounded up to a whole
// picosecond and each energy to the nearest picojoule, then everything is integer arithmetic. All ranks do the same
// work at the same time; energy, FLOPs and traffic are of all ranks together, time is of one.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/systems/serving/pricing/decoder_kernels.hpp"
#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "hw/device/device.hpp"
#include "hw/network/library_collective.hpp"

namespace orrery::experiments {

/// The library's call for a collective; bytes of an all-gather are what it leaves on every rank in both.
hw::LibraryCall library_call(models::Collective kind);

class DeviceIterationModel final : public IterationModel {
 public:
  DeviceIterationModel(std::unique_ptr<DecoderKernels> kernels, hw::Device device);
  DeviceIterationModel(models::Transformer transformer, hw::Device device)
      : DeviceIterationModel(model_kernels(std::move(transformer)), std::move(device)) {}
  void cost(const BatchShape& shape, IterationCost& out) override;
  bool additive() const override { return true; }

 private:
  /// Costs by token count: an array for the counts of ordinary batches, a map for the rare large ones.
  static constexpr std::size_t kFlat = 16'384;
  static constexpr std::size_t kMixes = 1 << 16;
  struct Table {
    std::vector<std::optional<IterationCost>> near;
    std::map<std::int64_t, IterationCost> far;
  };

  /// Cost of what `lower(launches)` appends.
  template <class Lower>
  IterationCost price(Lower lower);
  const IterationCost& dense(std::size_t kind, const models::TokenMix& mix);
  const IterationCost& embedding(std::int64_t tokens);
  const IterationCost& head(std::int64_t rows);
  const IterationCost& ending(std::int64_t tokens);
  template <class Lower>
  const IterationCost& tabulated(Table& table, std::int64_t index, Lower lower);

  std::unique_ptr<DecoderKernels> kernels_;
  hw::Device device_;
  models::Launches launches_;
  std::vector<Table> dense_;  // by kind of layer; of kinds with experts, batches of decodes alone
  std::map<std::array<std::int64_t, 4>, IterationCost> mixed_;  // by kind, decodes, prompt tokens, prompts
  std::vector<std::vector<std::int64_t>> layers_before_;        // by kind, then layer: layers of the kind before it
  Table embedding_, head_, ending_;
  IterationCost scratch_;
};

}  // namespace orrery::experiments
