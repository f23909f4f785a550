#include "policies/schedule/greedy_order.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <stdexcept>

namespace orrery::policies {
namespace {

constexpr double kRounding = 1e-6;
constexpr double kNotYet = std::numeric_limits<double>::infinity();
constexpr double kAnyRoom = std::numeric_limits<double>::infinity();  ///< for a backward pass, which keeps nothing

/// A pass that waits for its turn on a device.
struct WaitingPass {
  double ready = 0;
  StagePass pass;
  std::size_t hop = 0;
};

struct GreedyDevice {
  double free = 0;
  double kept = 0, limit = 0;   ///< micro-batches of activations
  bool after_backward = false;  ///< of its last pass that was not for weights
  std::vector<WaitingPass> forward, backward;
  std::deque<WaitingPass> weights;
};

class GreedyPipeline {
 public:
  GreedyPipeline(const PipelineSchedule& schedule, const ScheduleView& view, const std::vector<std::int64_t>& limit)
      : schedule_(schedule), view_(view), routes_(schedule.routes(view)), devices_(limit.size()), order_(limit.size()) {
    for (std::size_t d = 0; d < limit.size(); ++d) devices_[d].limit = static_cast<double>(limit[d]);
    for (const PipelineRoute& hops : routes_)
      for (const StageChunk& hop : hops) chunks_ = std::max<std::int64_t>(chunks_, hop.chunk + 1);
    for (std::int32_t m = 0; m < view.micro_batches; ++m) wait(m, 0, PassKind::forward, 0);
  }

  ScheduleOrder run() {
    for (;;) {
      std::size_t best = devices_.size();
      Choice choice;
      for (std::size_t d = 0; d < devices_.size(); ++d) {
        const Choice own = choose(devices_[d]);
        if (own.start < choice.start) choice = own, best = d;
      }
      if (best == devices_.size()) break;
      start(best, choice);
    }
    for (const GreedyDevice& device : devices_)
      if (!device.forward.empty() || !device.backward.empty())
        throw std::logic_error("a pipeline whose limits let nobody start");
    return std::move(order_);
  }

 private:
  struct Choice {
    double start = kNotYet;
    PassKind kind = PassKind::forward;
    std::size_t at = 0;
  };

  const PipelineRoute& route(std::int32_t micro_batch) const {
    return routes_[static_cast<std::size_t>(schedule_.route_of(view_, micro_batch))];
  }

  void wait(std::int32_t micro_batch, std::size_t hop, PassKind kind, double ready) {
    const StageChunk at = route(micro_batch)[hop];
    GreedyDevice& device = devices_[static_cast<std::size_t>(at.device)];
    (kind == PassKind::forward ? device.forward : device.backward)
        .push_back({ready, {kind, micro_batch, at.chunk}, hop});
  }

  /// The one that is ready first; of those that are ready when the device is, the farthest along its route, so that
  /// what is begun is ended first, then the earliest micro-batch.
  /// A pass through a chunk leaves room for one through each later chunk of the device: nobody could go on otherwise.
  std::size_t most_urgent(const std::vector<WaitingPass>& waiting, double free, double room) const {
    std::size_t best = waiting.size();
    const auto before = [&](const WaitingPass& a, const WaitingPass& b) {
      const double at = std::max(a.ready, free), bt = std::max(b.ready, free);
      if (at != bt) return at < bt;
      if (a.hop != b.hop) return a.hop > b.hop;
      return a.pass.micro_batch < b.pass.micro_batch;
    };
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (room < static_cast<double>(chunks_ - waiting[i].pass.chunk) - kRounding) continue;
      if (best == waiting.size() || before(waiting[i], waiting[best])) best = i;
    }
    return best;
  }

  Choice choose(const GreedyDevice& device) const {
    Choice choice;
    const auto offer = [&](double ready, PassKind kind, std::size_t at) {
      const double start = std::max(ready, device.free);
      if (start < choice.start) choice = {start, kind, at};
    };
    const std::size_t f = most_urgent(device.forward, device.free, device.limit - device.kept);
    const auto offer_forward = [&] {
      if (f < device.forward.size()) offer(device.forward[f].ready, PassKind::forward, f);
    };
    if (device.after_backward) {
      // A forward pass's turn: those after this device live on it. Where there is no room for it, some is made.
      offer_forward();
      const std::size_t wanted = most_urgent(device.forward, device.free, kAnyRoom);
      const bool blocked =
          f == device.forward.size() && wanted < device.forward.size() && device.forward[wanted].ready <= device.free;
      if (blocked && !device.weights.empty()) offer(device.weights.front().ready, PassKind::backward_weight, 0);
    }
    if (const std::size_t b = most_urgent(device.backward, device.free, kAnyRoom); b < device.backward.size())
      offer(device.backward[b].ready, PassKind::backward_input, b);
    offer_forward();
    if (!device.weights.empty()) offer(device.weights.front().ready, PassKind::backward_weight, 0);
    return choice;
  }

  void start(std::size_t d, const Choice& choice) {
    GreedyDevice& device = devices_[d];
    WaitingPass now;
    if (choice.kind == PassKind::backward_weight) {
      now = device.weights.front();
      device.weights.pop_front();
      device.free = choice.start + view_.backward_weight;
      device.kept -= view_.kept_for_weights;
    } else {
      std::vector<WaitingPass>& waiting = choice.kind == PassKind::forward ? device.forward : device.backward;
      now = waiting[choice.at];
      device.after_backward = choice.kind == PassKind::backward_input;
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(choice.at));
      device.free = choice.start + (choice.kind == PassKind::forward ? view_.forward : view_.backward_input);
      if (choice.kind == PassKind::forward)
        forward_done(device, now);
      else
        backward_done(device, now);
    }
    now.pass.kind = choice.kind;
    order_[d].push_back(now.pass);
  }

  double sent(const WaitingPass& pass, std::size_t to, double at) const {
    const PipelineRoute& hops = route(pass.pass.micro_batch);
    return at + (hops[pass.hop].device == hops[to].device ? 0 : view_.transfer);
  }

  void forward_done(GreedyDevice& device, const WaitingPass& pass) {
    device.kept += 1;
    const double end = device.free;
    if (pass.hop + 1 < route(pass.pass.micro_batch).size())
      wait(pass.pass.micro_batch, pass.hop + 1, PassKind::forward, sent(pass, pass.hop + 1, end));
    else
      wait(pass.pass.micro_batch, pass.hop, PassKind::backward_input, end);
  }

  void backward_done(GreedyDevice& device, const WaitingPass& pass) {
    const double end = device.free;
    device.kept -= 1 - view_.kept_for_weights;
    device.weights.push_back({end, pass.pass, pass.hop});
    if (pass.hop > 0)
      wait(pass.pass.micro_batch, pass.hop - 1, PassKind::backward_input, sent(pass, pass.hop - 1, end));
  }

  const PipelineSchedule& schedule_;
  const ScheduleView& view_;
  std::vector<PipelineRoute> routes_;
  std::vector<GreedyDevice> devices_;
  ScheduleOrder order_;
  std::int64_t chunks_ = 1;
};

}  // namespace

ScheduleOrder greedy_order(const PipelineSchedule& schedule, const ScheduleView& view,
                           const std::vector<std::int64_t>& limit) {
  return GreedyPipeline(schedule, view, limit).run();
}

}  // namespace orrery::policies
