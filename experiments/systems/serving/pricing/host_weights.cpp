#include "experiments/systems/serving/pricing/host_weights.hpp"

#include <algorithm>

#include "experiments/systems/serving/pricing/picoseconds.hpp"

namespace orrery::experiments {

sim::FieldRows<HostWeightsParams> HostWeightsParams::fields() {
  using P = HostWeightsParams;
  static const sim::FieldTable table{
      sim::required(sim::field("share", &P::share, sim::Unit::ratio, sim::between(0, 1),
                               "Share of every layer's weights that lies in host memory.")),
      sim::field("bandwidth", &P::bandwidth, sim::Unit::bytes_per_s, sim::positive(),
                 "Bandwidth from host memory to one device; null: that of the platform's copies, or 25 GB/s without a "
                 "platform.")};
  return table;
}

std::int64_t host_bytes(const HostWeightsParams& params, std::int64_t layer_bytes) {
  return static_cast<std::int64_t>(params.share * static_cast<double>(layer_bytes));
}

std::int64_t bytes_saved(const HostWeightsParams& params, const std::vector<std::int64_t>& layer_bytes) {
  std::int64_t all = 0, largest = 0;
  for (const std::int64_t bytes : layer_bytes) {
    all += host_bytes(params, bytes);
    largest = std::max(largest, host_bytes(params, bytes));
  }
  return all - 2 * largest;
}

HostWeights::HostWeights(std::unique_ptr<IterationModel> devices, const HostWeightsParams& params,
                         const std::vector<std::int64_t>& layer_bytes)
    : devices_(std::move(devices)), bandwidth_(params.bandwidth.value()) {
  for (const std::int64_t bytes : layer_bytes) host_bytes_.push_back(host_bytes(params, bytes));
}

/// Layers that several segments pass come once.
std::int64_t HostWeights::stream_ps(const BatchShape& shape) const {
  std::int64_t bytes = 0;
  for (std::size_t layer = 0; layer < host_bytes_.size(); ++layer)
    if (std::ranges::any_of(shape.segments, [&](const Segment& segment) {
          return static_cast<std::size_t>(segment.first) <= layer && layer < static_cast<std::size_t>(segment.last);
        }))
      bytes += host_bytes_[layer];
  return picoseconds(static_cast<double>(bytes) / bandwidth_);
}

void HostWeights::cost(const BatchShape& shape, IterationCost& out) {
  devices_->cost(shape, out);
  const std::int64_t waits = std::max<std::int64_t>(0, stream_ps(shape) - out.time_ps);
  out.time_ps += waits;
  out.class_ps[static_cast<std::size_t>(hw::OpClass::copy)] += waits;
}

}  // namespace orrery::experiments
