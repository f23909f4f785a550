#include "experiments/serving/load.hpp"

#include <algorithm>
#include "traces/generator.hpp"
namespace orrery::experiments {

void TraceLoad::start(sim::Engine& engine, RequestPort& port) {
  engine_ = &engine;
  port_ = &port;
  read_next();
}

void TraceLoad::on_event(std::uint64_t) {
  // Iterations that end at this very instant end first: what a router sees then does not depend on the order of events.
  if (!deferred_ && engine_->more_now()) {
    deferred_ = true;
    engine_->schedule_in({}, *this);
    return;
  }
  deferred_ = false;
  // All requests of one instant reach the replicas before any of them decides.
  do {
    Request& request = port_->make_request();
    request.prompt_tokens = record_.prompt_tokens;
    request.output_tokens = record_.output_tokens;
    if (!record_.prefix_blocks.empty()) write_text(request);
    ++delivered_;
    port_->send(request);
  } while (read_next());
  port_->flush();
}

void TraceLoad::write_text(Request& request) {
  std::int64_t left = request.prompt_tokens;
  for (const std::int64_t block : record_.prefix_blocks) {
    const std::int64_t tokens = std::min(left, traces::kPrefixBlockTokens);
    if (tokens == 0) break;
    request.text.push_back({3 * static_cast<std::uint64_t>(block), tokens});
    left -= tokens;
  }
  const auto number = static_cast<std::uint64_t>(delivered_);
  if (left > 0) request.text.push_back({3 * number + 1, left});
  request.text.push_back({3 * number + 2, request.output_tokens});
}

/// Reads the next request; true if it arrives now, else its arrival is scheduled (if there is one).
bool TraceLoad::read_next() {
  if (limit_ && delivered_ >= *limit_) return false;
  if (!source_.next(record_)) return false;
  const sim::Time at = engine_->scale().from_ns(record_.arrival_ns, rate_scale_);
  if (delivered_ > 0 && at <= engine_->now()) return true;
  engine_->schedule_at(at, *this);
  return false;
}

}  // namespace orrery::experiments
