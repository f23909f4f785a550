#include "experiments/systems/serving/replica/wire.hpp"

#include <cmath>
#include <utility>

namespace orrery::experiments {
namespace {

/// Of a message, where a rank has several: bytes that do not divide round up.
std::int64_t message_bytes(const WirePath& path, std::int64_t bytes) {
  return (bytes + path.each - 1) / path.each;
}

std::int64_t alone_on(const WirePath& path, std::int64_t bytes) {
  if (bytes == 0) return 0;
  const auto one = static_cast<double>(message_bytes(path, bytes));
  return path.latency_ps + static_cast<std::int64_t>(std::ceil(one / path.bandwidth * 1e12));
}

}  // namespace

std::int64_t Wire::alone_ps(SentBytes bytes) const {
  return alone_on(paths_[0], bytes.ring) + alone_on(paths_[1], bytes.exchange);
}

void Wire::send(ExactTime from, SentBytes bytes, Listener& listener) {
  listeners_.push_back(&listener);
  if (listeners_.size() > 1) return;  // a lane in lock step with the one that asked before
  from_ = from;
  bytes_ = bytes;
  next_ = left_ = 0;
  engine_.schedule_at(from.tick(), *this, ++turn_);
}

void Wire::forget() {
  ++turn_;
  listeners_.clear();
}

void Wire::on_event(std::uint64_t turn) {
  if (turn != turn_) return;
  if (left_ == 0 || --left_ == 0) send_next();
}

/// The next path with bytes to send; after the last, whoever waits is told.
void Wire::send_next() {
  const std::array bytes{bytes_.ring, bytes_.exchange};
  while (next_ < paths_.size() && bytes[next_] == 0) ++next_;
  if (next_ < paths_.size()) {
    const WirePath& path = paths_[next_];
    const std::int64_t size = message_bytes(path, bytes[next_++]);
    left_ = path.transfer.messages.size();
    for (const auto& [from, to] : path.transfer.messages)
      network_.send(from, to, size, path.transfer.label, *this, turn_);
    return;
  }
  // It was sent at a tick, up to so much later than it was ready: it ends within the tick that leads up to now.
  const std::int64_t ticks = engine_.now().ticks - from_.tick().ticks;
  const ExactTime end{from_.ticks + ticks, from_.ps};
  for (Listener* listener : std::exchange(listeners_, {})) listener->sent(end);
}

}  // namespace orrery::experiments
