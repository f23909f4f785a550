// What a step's pieces take: everything but the experts as the serving system prices it, experts and their copies as
// ExpertTimes does.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/experts/expert_times.hpp"
#include "experiments/systems/experts/config.hpp"

namespace orrery::experiments::experts {

class Prices final : public ExpertTimes {
 public:
  /// Of a step, or of one of `parts` that its texts (their tokens, where they are fewer) are divided into. Kinds of
  /// experts are the levels of model.bits or the experts of model.modules.
  explicit Prices(const Config& config, std::int64_t parts = 1);

  /// What level `level` of model.bits adds to those below it, or all of it where levels are not nested.
  const Slice& slice(std::size_t level) const { return slices_[level]; }

  /// A rank's step without its experts' products, of all layers and both edges.
  std::int64_t dense_ps() const { return dense_ps_; }
  double dense_j() const { return dense_j_; }  ///< all GPUs of the rank
  /// What all devices draw idle, W.
  double idle_w() const { return idle_w_; }
  /// Of it, what comes behind the dispatch of rows.
  std::int64_t behind_ps() const { return behind_ps_; }
  std::int64_t layer_bytes() const { return layer_bytes_; }  ///< on a GPU: all experts of a layer
  std::int64_t dense_bytes() const { return dense_bytes_; }  ///< of weights on a GPU, without experts
  std::int64_t kv_bytes() const { return kv_bytes_; }        ///< on a GPU, of its rank's texts

 private:
  struct Models {
    models::Transformer gpu, host;  ///< the share of one device; all of it in the host's formats
  };
  Prices(const Config& config, std::int64_t parts, const Models& models);
  static Models models_of(const Config& config);
  void make_slices(const Config& config);

  std::vector<Slice> slices_;  ///< by level of model.bits
  std::int64_t dense_ps_ = 0, behind_ps_ = 0, dense_bytes_ = 0, kv_bytes_ = 0, layer_bytes_ = 0;
  double dense_j_ = 0, idle_w_ = 0;
};

}  // namespace orrery::experiments::experts
