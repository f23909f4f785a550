#include "policies/schedule/schedule.hpp"

#include <fmt/format.h>

#include <map>
#include <tuple>

namespace orrery::policies {

/// Chunk c of device d has part c D + d: what Megatron-LM calls interleaved; with one chunk, the plain pipeline.
std::vector<PipelineRoute> PipelineSchedule::routes(const ScheduleView& view) const {
  PipelineRoute route;
  for (std::int32_t chunk = 0; chunk < view.chunks; ++chunk)
    for (std::int32_t device = 0; device < view.devices; ++device) route.push_back({device, chunk});
  return {route};
}

PipelineRoute folded_route(std::int64_t devices) {
  PipelineRoute route;
  for (std::int64_t device = 0; device < devices; ++device) route.push_back({static_cast<std::int32_t>(device), 0});
  for (std::int64_t device = devices; device-- > 0;) route.push_back({static_cast<std::int32_t>(device), 1});
  return route;
}

std::int64_t PipelineSchedule::route_of(const ScheduleView&, std::int64_t) const {
  return 0;
}

namespace {

using PassKey = std::tuple<std::int32_t, std::int32_t, std::int32_t, PassKind>;  // device, chunk, micro-batch, kind

PassKey key_of(std::int32_t device, const StagePass& pass) {
  return {device, pass.chunk, pass.micro_batch, pass.kind};
}

std::string shown(const PassKey& key) {
  const auto& [device, chunk, micro_batch, kind] = key;
  return fmt::format("{} of micro-batch {} through chunk {} of device {}", sim::to_string(kind), micro_batch, chunk,
                     device);
}

/// Passes that must have ended before one may start, of those that are in the order.
class ScheduleCheck {
 public:
  ScheduleCheck(const PipelineSchedule& schedule, const ScheduleView& view, const ScheduleOrder& order)
      : schedule_(schedule), view_(view), order_(order), routes_(schedule.routes(view)) {}

  std::optional<std::string> run() {
    if (auto fault = collect()) return fault;
    if (auto fault = complete()) return fault;
    return advance();
  }

 private:
  std::optional<std::string> collect() {
    for (std::size_t device = 0; device < order_.size(); ++device)
      for (const StagePass& pass : order_[device]) {
        const PassKey key = key_of(static_cast<std::int32_t>(device), pass);
        if (!done_.try_emplace(key, false).second) return fmt::format("{} is there twice", shown(key));
      }
    return std::nullopt;
  }

  bool has(const PassKey& key) const { return done_.contains(key); }

  std::optional<std::string> complete() {
    std::size_t wanted = 0;
    for (std::int32_t m = 0; m < view_.micro_batches; ++m)
      for (const StageChunk& hop : route(m)) {
        const auto at = [&](PassKind kind) { return PassKey{hop.device, hop.chunk, m, kind}; };
        if (!has(at(PassKind::forward))) return fmt::format("{} is missing", shown(at(PassKind::forward)));
        const bool whole = has(at(PassKind::backward));
        const bool input = has(at(PassKind::backward_input)), weight = has(at(PassKind::backward_weight));
        if (whole ? input || weight : !(input && weight))
          return fmt::format("{} is missing, or there whole and in halves", shown(at(PassKind::backward)));
        wanted += whole ? 2 : 3;
      }
    if (wanted != done_.size()) return "there are passes that belong to no micro-batch";
    return std::nullopt;
  }

  /// Runs the orders as far as they go.
  std::optional<std::string> advance() {
    std::vector<std::size_t> next(order_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t device = 0; device < order_.size(); ++device)
        while (next[device] < order_[device].size() && ready(device, order_[device][next[device]])) {
          done_[key_of(static_cast<std::int32_t>(device), order_[device][next[device]])] = true;
          ++next[device];
          moved = true;
        }
    }
    for (std::size_t device = 0; device < order_.size(); ++device)
      if (next[device] < order_[device].size())
        return fmt::format("{} never starts",
                           shown(key_of(static_cast<std::int32_t>(device), order_[device][next[device]])));
    return std::nullopt;
  }

  bool ready(std::size_t device, const StagePass& pass) const {
    const PipelineRoute& hops = route(pass.micro_batch);
    std::size_t at = 0;
    while (!(hops[at] == StageChunk{static_cast<std::int32_t>(device), pass.chunk})) ++at;
    const auto ended = [&](const StageChunk& hop, PassKind kind) {
      const auto found = done_.find({hop.device, hop.chunk, pass.micro_batch, kind});
      return found != done_.end() && found->second;
    };
    if (pass.kind == PassKind::forward) return at == 0 || ended(hops[at - 1], PassKind::forward);
    if (pass.kind == PassKind::backward_weight) return ended(hops[at], PassKind::backward_input);
    if (!ended(hops[at], PassKind::forward)) return false;
    return at + 1 == hops.size() || ended(hops[at + 1], PassKind::backward) ||
           ended(hops[at + 1], PassKind::backward_input);
  }

  const PipelineRoute& route(std::int64_t micro_batch) const {
    return routes_[static_cast<std::size_t>(schedule_.route_of(view_, micro_batch))];
  }

  const PipelineSchedule& schedule_;
  const ScheduleView& view_;
  const ScheduleOrder& order_;
  std::vector<PipelineRoute> routes_;
  std::map<PassKey, bool> done_;
};

}  // namespace

std::optional<std::string> check_order(const PipelineSchedule& schedule, const ScheduleView& view,
                                       const ScheduleOrder& order) {
  return ScheduleCheck(schedule, view, order).run();
}

}  // namespace orrery::policies
