// What the pieces of a layer's experts take: their products on GPU or host, copies over the link, reads from a drive.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "hw/device/device.hpp"
#include "hw/parts/link_part.hpp"
#include "hw/parts/memory_tier.hpp"
#include "models/transformer/transformer.hpp"
#include "policies/expert_schedule/expert_schedule.hpp"

namespace orrery::experiments {

struct ExpertProduct : models::ExpertShape {
  hw::OpClass op{};
};

/// The products of an expert's weights, of one rank.
struct ExpertProducts {
  std::vector<ExpertProduct> products;
  std::int64_t bytes(hw::DType dtype) const;
};

/// Those of a model's experts, each divided by `parts` once more: its intermediate size, as over a host's sockets.
/// `size`: another intermediate size than the model's, of a rank; 0: none at all.
ExpertProducts expert_products(const models::Transformer& t, std::int64_t parts = 1,
                               std::optional<std::int64_t> size = std::nullopt);

/// Dynamic energy, J, beside what devices draw idle.
struct Priced {
  std::int64_t time_ps = 0, down_ps = 0;  ///< down: of it, the way down (class expert_down)
  double energy_j = 0, down_j = 0;
  double memory_j = 0;  ///< of energy_j: device memory
  void add(const Priced& other) {
    time_ps += other.time_ps;
    down_ps += other.down_ps;
    energy_j += other.energy_j;
    down_j += other.down_j;
    memory_j += other.memory_j;
  }
};

/// Weights that come and stay as one: an expert, or a level of one.
struct Slice {
  std::int64_t bytes = 0;                 ///< on a GPU
  std::int64_t copy_ps = 0, read_ps = 0;  ///< over the link; from the drive
  double copy_j = 0, read_j = 0;
};

/// Who computes experts, and where their weights are.
struct ExpertMachine {
  hw::Device gpu;
  std::int64_t devices = 1;        ///< GPUs that divide each expert among them, each with a link of its own
  std::optional<hw::Device> host;  ///< none: the host only keeps experts
  std::int64_t sockets = 1;        ///< of the host, which divide each expert too
  double host_efficiency = 1;      ///< of its kernels, relative to the cost model
  double host_gap_s = 0;           ///< more of a layer that uses the host
  hw::LinkPart link;               ///< between host and GPU
  std::optional<hw::MemoryTier> storage;
};

/// What experts are: on the GPUs by kind, on the host.
struct ExpertWeights {
  hw::DType dtype{};                  ///< of activations
  std::vector<ExpertProducts> kinds;  ///< of a rank; one where all experts are alike
  ExpertProducts socket;              ///< on one socket of the host
  std::int64_t gpu_bytes = 0;         ///< of one expert on a GPU, …
  std::int64_t host_bytes = 0;        ///< … and on all sockets
};
/// Those of a model whose experts are alike. `gpu`: the share of one device; `host`: the model in the host's formats,
/// not divided.
ExpertWeights expert_weights(const models::Transformer& gpu, const models::Transformer& host, hw::DType dtype,
                             std::int64_t sockets);

class ExpertTimes : public policies::ExpertPrices {
 public:
  ExpertTimes(ExpertMachine machine, ExpertWeights weights);

  std::int64_t gpu_ps(std::int64_t tokens) const override { return gpu_ps(std::span(&tokens, 1)); }
  /// One of several: the host's cores share all of its experts, and one alone would leave most of them idle.
  std::int64_t host_ps(std::int64_t tokens) const override;
  std::int64_t copy_ps() const override { return whole_.copy_ps; }
  /// An expert whole; read_ps from the drive into the host's memory.
  const Slice& whole() const { return whole_; }
  /// Experts in one launch a product; `rows` has the tokens of each. None: no time.
  std::int64_t gpu_ps(std::span<const std::int64_t> rows) const { return gpu(rows).time_ps; }
  std::int64_t host_ps(std::span<const std::int64_t> rows) const { return host(rows).time_ps; }
  /// The same with the energy of all GPUs of a rank, of all sockets. `kind`: of ExpertWeights::kinds.
  Priced gpu(std::span<const std::int64_t> rows, std::size_t kind = 0) const;
  Priced host(std::span<const std::int64_t> rows) const;
  std::int64_t host_gap_ps() const { return host_gap_ps_; }
  bool host_computes() const { return machine_.host.has_value(); }
  bool has_storage() const { return machine_.storage.has_value(); }
  std::size_t kinds() const { return weights_.kinds.size(); }
  /// Of one token by an expert of a kind, all GPUs of the rank; and the weights it reads there.
  double flops(std::size_t kind) const;
  std::int64_t weight_bytes(std::size_t kind) const;
  std::int64_t host_expert_bytes() const { return weights_.host_bytes; }  ///< all sockets

 protected:
  Slice slice_of(std::int64_t gpu_bytes, std::int64_t host_bytes) const;
  const ExpertWeights& weights() const { return weights_; }

 private:
  struct ByRows {
    std::map<std::vector<std::int64_t>, Priced> prices;
    std::size_t numbers = 0;  ///< in the keys
  };
  static std::pair<Priced*, bool> find(ByRows& known, std::span<const std::int64_t> rows);
  static Priced price(const hw::Device& device, hw::DType dtype, const ExpertProducts& expert,
                      std::span<const std::int64_t> rows, std::int64_t devices);

  ExpertMachine machine_;
  ExpertWeights weights_;
  Slice whole_;
  std::int64_t host_gap_ps_;
  mutable std::vector<ByRows> gpu_prices_;  ///< by kind and sorted rows
  mutable ByRows host_prices_;              ///< by sorted rows
};

}  // namespace orrery::experiments
