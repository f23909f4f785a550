#include "experiments/systems/network/flow_runner.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery::experiments::network {
namespace {

/// Flows that a summary names where they never arrive.
constexpr std::size_t kNamedFlows = 20;

}  // namespace

FlowRunner::FlowRunner(const NetworkConfig& config, LiveRun& run)
    : config_(config), run_(run), overhead_(run.engine().scale().duration(config.network.message_overhead_s)) {
  if (config.flows.empty() && !config.traffic) return;
  unharmed_ = config.routing.make(*config.topology);
  if (!config.traffic) return;
  matrix_.emplace(*config.traffic, run.engine());
  arrivals_.emplace(run.engine().stream("traffic/arrivals"));
}

void FlowRunner::start() {
  run_.add_work(std::ssize(config_.flows));
  if (!config_.flows.empty()) run_.engine().schedule_at(run_.at(config_.flows.front().start_s), *this, kListed);
  if (!config_.traffic) return;
  run_.add_work(config_.traffic->params.flows);
  run_.engine().schedule_at(run_.at(config_.traffic->params.start_s), *this, kTraffic);
}

void FlowRunner::on_event(std::uint64_t payload) {
  switch (payload & ((1U << kKindBits) - 1)) {
    case kListed:
      start_listed();
      break;
    case kTraffic:
      start_traffic();
      break;
    default:
      arrived(payload >> kKindBits);
  }
}

void FlowRunner::start_listed() {
  while (next_listed_ < config_.flows.size()) {
    const Flow& flow = config_.flows[next_listed_];
    const sim::Time at = run_.at(flow.start_s);
    if (at > run_.engine().now()) {
      run_.engine().schedule_at(at, *this, kListed);
      return;
    }
    ++next_listed_;
    // Flows between the same ends spread over equal paths, in an order that the config's does not change.
    send(flow.id, flow.from, flow.to, flow.bytes, sent_[{flow.from, flow.to}]++);
  }
}

/// Closed loop: the whole window. Open loop: one message, and the time of the next.
void FlowRunner::start_traffic() {
  const TrafficParams& params = config_.traffic->params;
  const std::int64_t now = params.window ? std::min(*params.window, params.flows) : 1;
  for (std::int64_t i = 0; i < now; ++i) send_generated();
  if (!params.window && generated_ < params.flows) {
    const double wait_s = arrivals_->exponential(1 / *params.rate_per_s);
    run_.engine().schedule_in(run_.engine().scale().duration(wait_s), *this, kTraffic);
  }
}

void FlowRunner::send_generated() {
  const TrafficMatrix::Pair pair = matrix_->next();
  const auto id = std::ssize(config_.flows) + generated_;
  send(id, pair.from, pair.to, pair.bytes, static_cast<std::uint64_t>(generated_++));
}

void FlowRunner::send(std::int64_t id, hw::NodeIndex from, hw::NodeIndex to, std::int64_t bytes, std::uint64_t label) {
  std::size_t slot = records_.size();
  if (free_.empty()) {
    records_.emplace_back();
    under_way_.push_back(false);
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  FlowRecord& record = records_[slot];
  record = {id, from, to, bytes, run_.engine().now()};
  under_way_[slot] = true;
  set_alone(record, label);
  run_.started(record.started);
  run_.send(from, to, bytes, label, *this, (slot << kKindBits) | kArrival);
}

void FlowRunner::set_alone(FlowRecord& record, std::uint64_t label) {
  path_.clear();
  if (!unharmed_->route(record.from, record.to, label, path_)) return;
  const hw::Topology& topology = *config_.topology;
  const sim::TickScale& scale = run_.engine().scale();
  double narrowest = std::numeric_limits<double>::infinity();
  record.alone = overhead_;
  for (const hw::LinkIndex link : path_) {
    record.alone += scale.duration(topology.links[link].latency_s);
    narrowest = std::min(narrowest, topology.links[link].bandwidth);
  }
  record.alone += scale.duration(static_cast<double>(record.bytes) / narrowest);
  record.hops = std::ssize(path_);
}

void FlowRunner::arrived(std::size_t slot) {
  FlowRecord& record = records_[slot];
  const sim::Time now = run_.engine().now();
  run_.loads_change();
  run_.ended(now);
  record.finished = now;
  FlowFigures& figures = run_.result().flows;
  const std::int64_t ticks = (now - record.started).ticks;
  figures.time.add(ticks);
  figures.bytes += record.bytes;
  if (record.alone.ticks > 0) {
    record.slowdown = static_cast<double>(ticks) / static_cast<double>(record.alone.ticks);
    figures.slowdown.add(std::llround(*record.slowdown * 1e6));
  }
  if (run_.observer() != nullptr) run_.observer()->flow_ended(record);
  under_way_[slot] = false;
  free_.push_back(slot);
  run_.work_done();
  if (config_.traffic && config_.traffic->params.window && record.id >= std::ssize(config_.flows) &&
      generated_ < config_.traffic->params.flows)
    send_generated();
}

void FlowRunner::flush() {
  std::vector<const FlowRecord*> open;
  for (std::size_t slot = 0; slot < records_.size(); ++slot)
    if (under_way_[slot]) open.push_back(&records_[slot]);
  std::sort(open.begin(), open.end(), [](const FlowRecord* a, const FlowRecord* b) { return a->id < b->id; });
  NetworkResult& result = run_.result();
  for (const FlowRecord* record : open) {
    if (result.stalled && result.stalled_flows.size() < kNamedFlows) result.stalled_flows.push_back(record->id);
    if (run_.observer() != nullptr) run_.observer()->flow_ended(*record);
  }
  const std::int64_t all = std::ssize(config_.flows) + (config_.traffic ? config_.traffic->params.flows : 0);
  result.flows.unfinished = all - result.flows.time.count();
}

}  // namespace orrery::experiments::network
