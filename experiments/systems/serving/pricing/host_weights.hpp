// Iterations where a share of every layer's weights lies in host memory and comes over the device's host link each
// time.
//
// While a layer computes, the weights of the next one are on their way into one of two buffers, round and round: the
// first layer's come while the last one of the iteration before computes. So an iteration of layers that are alike
// lasts
//     max(devices, host bytes of its layers / bandwidth of the link)
// and a stage of a pipeline likewise. What it waits for is told as class `copy`. Embedding and head stay on the device.
// Left out: experts that are not chosen need not come, layers that are unlike hide less, energy of the link, the
// device's writes of what arrives, contention with KV that is copied over the same link. Source: FlexGen (Sheng et al.,
// ICML 2023, section 3: overlap of loading the next layer with computing this one), one batch at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

struct HostWeightsParams {
  double share = 0;
  std::optional<double> bandwidth;  ///< filled in when the config is read
  static sim::FieldRows<HostWeightsParams> fields();
};

/// Of a layer's weights on a device, what lies in host memory: rounded down.
std::int64_t host_bytes(const HostWeightsParams& params, std::int64_t layer_bytes);
/// What a device's weights take less on it, the two buffers taken off; below 0 where these are more.
std::int64_t bytes_saved(const HostWeightsParams& params, const std::vector<std::int64_t>& layer_bytes);

class HostWeights final : public IterationModel {
 public:
  /// `layer_bytes`: weights of each layer on a device.
  HostWeights(std::unique_ptr<IterationModel> devices, const HostWeightsParams& params,
              const std::vector<std::int64_t>& layer_bytes);
  void cost(const BatchShape& shape, IterationCost& out) override;
  std::int64_t switch_ps(std::int32_t from, std::int32_t to) const override { return devices_->switch_ps(from, to); }

 private:
  std::int64_t stream_ps(const BatchShape& shape) const;

  std::unique_ptr<IterationModel> devices_;
  double bandwidth_;
  std::vector<std::int64_t> host_bytes_;  // of each layer
};

}  // namespace orrery::experiments
