#include "experiments/systems/serving/replica/wire.hpp"

#include <cmath>

namespace orrery::experiments {

std::int64_t Wire::alone_ps(std::int64_t bytes) const {
  if (bytes == 0) return 0;
  return parts_.latency_ps + static_cast<std::int64_t>(std::ceil(static_cast<double>(bytes) / parts_.bandwidth * 1e12));
}

void Wire::send(sim::Time at, std::int64_t bytes, Listener& listener) {
  listener_ = &listener;
  bytes_ = bytes;
  left_ = 0;
  engine_.schedule_at(at, *this, ++turn_);
}

void Wire::on_event(std::uint64_t turn) {
  if (turn != turn_) return;
  if (left_ > 0) {
    if (--left_ == 0) listener_->sent();
    return;
  }
  left_ = parts_.hosts.size();
  for (std::size_t i = 0; i < parts_.hosts.size(); ++i)
    parts_.network->send(parts_.hosts[i], parts_.hosts[(i + 1) % parts_.hosts.size()], bytes_, parts_.label, *this,
                         turn_);
}

}  // namespace orrery::experiments
