// Iterations of a decoder on devices under tensor parallelism: kernels priced by a cost model, collectives by their
// closed form.
//
// What is launched comes from DecoderKernels: the model's own list, or an operator graph that passes have rewritten.
// Dense parts depend on the number of tokens alone, so their cost is computed once for each number that occurs and
// kept, by kind of layer; with experts they depend on where tokens come from as well, and the first kMixes batches with
// prompts are kept too. Where router choices are replayed, what experts do is priced anew for every layer of the trace,
// on the rank that takes longest. Attention is priced from its sums; what was asked lately is remembered. Each kernel's
// time is rounded up to a whole picosecond and each energy to the nearest picojoule, then everything is integer
// arithmetic. All ranks do the same work at the same time; energy, FLOPs and traffic are of all ranks together, time is
// of one.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/systems/serving/pricing/decoder_kernels.hpp"
#include "experiments/systems/serving/pricing/expert_exchange.hpp"
#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "experiments/systems/serving/pricing/memo.hpp"
#include "experiments/systems/serving/pricing/router_replay.hpp"
#include "hw/device/device.hpp"
#include "hw/network/library_collective.hpp"

namespace orrery::experiments {

/// The library's call for a collective; bytes of an all-gather are what it leaves on every rank in both.
hw::LibraryCall library_call(models::Collective kind);

class DeviceIterationModel final : public IterationModel {
 public:
  /// `between_lanes`: the link of collectives among more ranks than those of tensor parallelism; none: the device's.
  /// `exchange`: how rows of experts travel; none: by the library's all-to-all. `replay`: who chose which experts, of
  /// segments with runs; null: there are none.
  DeviceIterationModel(std::shared_ptr<const DecoderKernels> kernels, hw::Device device,
                       std::optional<hw::LinkParams> between_lanes = std::nullopt,
                       std::optional<ExpertExchange> exchange = std::nullopt,
                       std::shared_ptr<const RouterReplay> replay = nullptr);
  DeviceIterationModel(models::Transformer transformer, hw::Device device)
      : DeviceIterationModel(model_kernels(std::move(transformer)), std::move(device)) {}
  void cost(const BatchShape& shape, IterationCost& out) override;
  void parts(const BatchShape& shape, CostParts& out) override;
  const IterationCost& entry(std::size_t index) const override { return entries_[index]; }
  bool additive() const override { return true; }

 private:
  /// Entries by token count: an array for the counts of ordinary batches, a map for the rare large ones.
  static constexpr std::size_t kFlat = 16'384;
  static constexpr std::size_t kMixes = 1 << 16;
  static constexpr std::size_t kAttentions = 1 << 14;  // that are remembered
  static constexpr std::size_t kNone = SIZE_MAX;
  struct Table {
    std::vector<std::size_t> near;
    std::map<std::int64_t, std::size_t> far;
  };

  /// Attention of a layer.
  struct Attention {
    std::size_t kind = 0;
    PrefillSums prefill;
    DecodeSums decode;
    std::uint64_t hash() const;
    friend bool operator==(const Attention&, const Attention&) = default;
  };
  /// Of its kernels: mostly one.
  struct AttentionCost {
    KernelCost first;
    std::vector<KernelCost> others;
  };

  /// What `lower(launches)` appends; each(cost) for all of it.
  template <class Lower, class Each>
  void price(Lower lower, Each each);
  /// Its cost, kept.
  template <class Lower>
  std::size_t keep(Lower lower);
  /// Entry of a table, which is made when it is first asked for.
  template <class Lower>
  std::size_t tabulated(Table& table, std::int64_t index, Lower lower);
  /// Adds the dense part of `layers` layers of a kind, or their attention.
  void add_dense(std::size_t kind, const models::TokenMix& mix, std::int64_t layers, CostParts& out);
  void add_attention(const Attention& attention, std::int64_t layers, CostParts& out);
  /// Adds the dense part of the segment's layers of a kind whose tokens' choices are known.
  void add_replayed(std::size_t kind, const Segment& segment, std::int64_t layers, CostParts& out);
  /// Adds the experts of layers that get these rows, on the slowest rank, and the exchange of rows, which lasts as long
  /// as the fullest rank's.
  void add_experts(std::size_t kind, std::int64_t tokens, RouterReplay::Place place, std::int64_t layers,
                   CostParts& out);

  std::shared_ptr<const DecoderKernels> kernels_;
  hw::Device device_;
  std::optional<hw::LinkParams> between_lanes_;
  std::optional<ExpertExchange> exchange_;
  std::shared_ptr<const RouterReplay> replay_;
  models::Launches launches_;
  std::deque<IterationCost> entries_;
  std::vector<Table> dense_;  // by kind of layer; of kinds with experts, batches of decodes alone
  std::map<std::array<std::int64_t, 4>, std::size_t> mixed_;  // by kind, decodes, prompt tokens, prompts
  std::vector<std::vector<std::int64_t>> layers_before_;      // by kind, then layer: layers of the kind before it
  Table embedding_, head_, ending_;
  // Of router choices: by kind the parts beside experts; by layer those with experts before it; of a layer of the
  // trace.
  std::vector<Table> beside_experts_;
  std::vector<std::size_t> routed_before_;
  std::vector<std::int64_t> stands_for_, rows_;
  std::vector<RouterReplay::Stretch> stretches_;
  std::vector<KernelCost> slowest_, candidate_;
  Memo<Attention, AttentionCost> attentions_{kAttentions};
  CostParts parts_;
};

}  // namespace orrery::experiments
