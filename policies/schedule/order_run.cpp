#include "policies/schedule/order_run.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace orrery::policies {
namespace {

/// Where the end of a pass stands: by route hop, micro-batch and direction; below zero: not ended.
class PassEnds {
 public:
  PassEnds(std::size_t hops, std::int64_t micro_batches)
      : hops_(hops), ends_(2 * hops * static_cast<std::size_t>(micro_batches), -1) {}
  double& at(std::size_t hop, std::int32_t micro_batch, bool forward) {
    return ends_[(static_cast<std::size_t>(micro_batch) * hops_ + hop) * 2 + (forward ? 1 : 0)];
  }

 private:
  std::size_t hops_;
  std::vector<double> ends_;
};

}  // namespace

PassLength view_lengths(const ScheduleView& view) {
  return [view](std::int64_t, const StagePass& pass) {
    switch (pass.kind) {
      case PassKind::forward:
        return view.forward;
      case PassKind::backward:
        return view.backward_input + view.backward_weight;
      case PassKind::backward_input:
        return view.backward_input;
      case PassKind::backward_weight:
        return view.backward_weight;
    }
    return 0.0;
  };
}

OrderTimes run_order(const PipelineSchedule& schedule, const ScheduleView& view, const ScheduleOrder& order,
                     const PassLength& length) {
  const std::vector<PipelineRoute> routes = schedule.routes(view);
  std::size_t longest = 0;
  for (const PipelineRoute& route : routes) longest = std::max(longest, route.size());
  PassEnds ends(longest, view.micro_batches);
  // Hop of a device's chunk in each route; a chunk that a route does not pass is never asked for.
  std::vector<std::map<std::pair<std::int32_t, std::int32_t>, std::size_t>> hop_of(routes.size());
  for (std::size_t r = 0; r < routes.size(); ++r)
    for (std::size_t hop = 0; hop < routes[r].size(); ++hop)
      hop_of[r][{routes[r][hop].device, routes[r][hop].chunk}] = hop;
  OrderTimes times;
  times.start.resize(order.size());
  times.begin.assign(order.size(), 0);
  times.end.assign(order.size(), 0);
  times.busy.assign(order.size(), 0);
  std::vector<std::size_t> next(order.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t device = 0; device < order.size(); ++device)
      while (next[device] < order[device].size()) {
        const StagePass& pass = order[device][next[device]];
        const auto r = static_cast<std::size_t>(schedule.route_of(view, pass.micro_batch));
        const std::size_t hop = hop_of[r].at({static_cast<std::int32_t>(device), pass.chunk});
        const auto arrival = [&](std::size_t from, bool forward) {
          const double end = ends.at(from, pass.micro_batch, forward);
          const bool same = routes[r][from].device == static_cast<std::int32_t>(device);
          return end < 0 ? -1 : end + (same ? 0 : view.transfer);
        };
        double ready = 0;
        if (pass.kind == PassKind::forward)
          ready = hop == 0 ? 0 : arrival(hop - 1, true);
        else if (pass.kind != PassKind::backward_weight)
          ready = hop + 1 == routes[r].size() ? ends.at(hop, pass.micro_batch, true) : arrival(hop + 1, false);
        if (ready < 0) break;
        const double start = std::max(ready, times.end[device]), time = length(static_cast<std::int64_t>(device), pass);
        if (next[device] == 0) times.begin[device] = start;
        times.start[device].push_back(start);
        times.end[device] = start + time;
        times.busy[device] += time;
        if (pass.kind != PassKind::backward_weight)
          ends.at(hop, pass.micro_batch, pass.kind == PassKind::forward) = times.end[device];
        ++next[device];
        moved = true;
      }
  }
  for (std::size_t device = 0; device < order.size(); ++device) {
    const double span = times.end[device] - times.begin[device];
    if (span <= times.span) continue;
    times.span = span;
    times.bubble = span > 0 ? 1 - times.busy[device] / span : 0;
  }
  return times;
}

std::vector<std::int64_t> most_kept(const ScheduleOrder& order) {
  std::vector<std::int64_t> all;
  for (const std::vector<StagePass>& passes : order) {
    std::int64_t now = 0, most = 0;
    for (const StagePass& pass : passes) {
      if (pass.kind == PassKind::forward) most = std::max(most, ++now);
      if (pass.kind == PassKind::backward || pass.kind == PassKind::backward_weight) --now;
    }
    all.push_back(most);
  }
  return all;
}

}  // namespace orrery::policies
