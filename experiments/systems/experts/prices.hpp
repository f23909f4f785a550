// What a step's pieces take: everything but the experts as the serving system prices it, experts as grouped products on
// GPU or host, copies by the link.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "experiments/systems/experts/config.hpp"

namespace orrery::experiments::experts {

/// The products of an expert's weights, of one rank.
struct ExpertProducts {
  std::vector<models::ExpertShape> products;
  std::int64_t bytes(hw::DType dtype) const;
};

/// Those of a model's experts, each divided by `parts` once more: its intermediate size, as over a host's sockets.
/// `size`: another intermediate size than the model's, of a rank; 0: none at all.
ExpertProducts expert_products(const models::Transformer& t, std::int64_t parts = 1,
                               std::optional<std::int64_t> size = std::nullopt);

/// Dynamic energy, J, beside what devices draw idle.
struct Priced {
  std::int64_t time_ps = 0;
  double energy_j = 0;
};

/// Weights that come and stay as one: an expert, or a level of one.
struct Slice {
  std::int64_t bytes = 0;                 ///< on a GPU
  std::int64_t copy_ps = 0, read_ps = 0;  ///< over the link; from the drive
  double copy_j = 0, read_j = 0;
};

class Prices final : public policies::ExpertPrices {
 public:
  /// Of a step, or of one of `parts` that its texts (their tokens, where they are fewer) are divided into.
  explicit Prices(const Config& config, std::int64_t parts = 1);

  std::int64_t gpu_ps(std::int64_t tokens) const override { return gpu_ps(std::span(&tokens, 1)); }
  /// One of several: the host's cores share all of its experts, and one alone would leave most of them idle.
  std::int64_t host_ps(std::int64_t tokens) const override;
  std::int64_t copy_ps() const override { return whole_.copy_ps; }
  /// An expert whole; read_ps from the drive into the host's memory.
  const Slice& whole() const { return whole_; }
  /// What level `level` of model.bits adds to those below it, or all of it where levels are not nested.
  const Slice& slice(std::size_t level) const { return slices_[level]; }
  /// Experts in one launch a product; `rows` has the tokens of each. None: no time.
  std::int64_t gpu_ps(std::span<const std::int64_t> rows) const { return gpu(rows).time_ps; }
  std::int64_t host_ps(std::span<const std::int64_t> rows) const { return host(rows).time_ps; }
  /// The same with the energy of all GPUs of a rank, of all sockets. `kind`: a level of model.bits or an expert of
  /// model.modules; 0 where all experts are alike.
  Priced gpu(std::span<const std::int64_t> rows, std::size_t kind = 0) const;
  /// Of one token by an expert of a kind, all GPUs of the rank; and the weights it reads there.
  double flops(std::size_t kind) const;
  std::int64_t weight_bytes(std::size_t kind) const;
  Priced host(std::span<const std::int64_t> rows) const;

  /// A rank's step without its experts' products, of all layers and both edges.
  std::int64_t dense_ps() const { return dense_ps_; }
  double dense_j() const { return dense_j_; }  ///< all GPUs of the rank
  /// What all devices draw idle, W.
  double idle_w() const { return idle_w_; }
  /// Of it, what comes behind the dispatch of rows.
  std::int64_t behind_ps() const { return behind_ps_; }
  std::int64_t layer_bytes() const { return layer_bytes_; }       ///< on a GPU: all experts of a layer
  std::int64_t dense_bytes() const { return dense_bytes_; }       ///< of weights on a GPU, without experts
  std::int64_t host_expert_bytes() const { return host_bytes_; }  ///< all sockets
  std::int64_t kv_bytes() const { return kv_bytes_; }             ///< on a GPU, of its rank's texts

 private:
  using ByRows = std::map<std::vector<std::int64_t>, Priced>;
  Slice slice_of(std::int64_t gpu_bytes, std::int64_t host_bytes) const;
  void make_kinds(const models::Transformer& t);
  static Priced price(const hw::Device& device, hw::DType dtype, const ExpertProducts& expert,
                      std::span<const std::int64_t> rows, std::int64_t devices);

  const Config& config_;
  hw::DType dtype_;
  std::vector<ExpertProducts> gpu_;  ///< of a rank, by kind
  ExpertProducts host_;              ///< of a socket
  Slice whole_;
  std::vector<Slice> slices_;  ///< by level of model.bits
  std::int64_t dense_ps_ = 0, behind_ps_ = 0, dense_bytes_ = 0, host_bytes_ = 0, kv_bytes_ = 0, layer_bytes_ = 0;
  double dense_j_ = 0, idle_w_ = 0;
  mutable std::vector<ByRows> gpu_prices_;  ///< by kind and sorted rows
  mutable ByRows host_prices_;              ///< by sorted rows
};

}  // namespace orrery::experiments::experts
