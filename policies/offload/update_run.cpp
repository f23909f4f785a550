#include "policies/offload/update_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>

namespace orrery::policies {
namespace {

/// Plays an order through.
class Update {
 public:
  Update(const UpdateOrder& order, const OffloadView& view, const UpdateRates& rates)
      : order_(order),
        rates_(rates),
        weights_(there(order, view.parameters, view.weights)),
        gradients_(there(order, view.parameters, view.gradients)) {}

  UpdateRun run(std::int64_t parameters) {
    // Gradients that the device's own updates bring up wait for nothing of the host.
    const bool apart = gradients_[static_cast<std::size_t>(UpdatePlace::device)] > 0 &&
                       std::ranges::find(order_.subgroups, UpdatePlace::host) != order_.subgroups.end();
    if (apart) subgroups(parameters, [](UpdatePlace place) { return place == UpdatePlace::device; });
    subgroups(parameters, [apart](UpdatePlace place) { return !apart || place != UpdatePlace::device; });
    while (!filled_.empty()) empty_buffer();
    out_.update_s = std::max({host_, device_, caster_, up_, down_});
    return out_;
  }

 private:
  /// Those whose place is asked for, in order; the last one has what is left.
  template <class Asked>
  void subgroups(std::int64_t parameters, Asked asked) {
    for (const UpdatePlace place : order_.subgroups) {
      const std::int64_t count = std::min(order_.subgroup, parameters);
      parameters -= count;
      if (!asked(place)) continue;
      switch (place) {
        case UpdatePlace::device:
          on_device(count);
          break;
        case UpdatePlace::host:
          on_host(count);
          break;
        case UpdatePlace::fetched:
          fetch(count);
          break;
      }
    }
  }

  struct Buffer {
    double ready_s = 0;
    std::int64_t bytes = 0;
  };

  /// Parameters with something in the host's memory, by who updates them.
  using There = std::array<std::int64_t, 3>;
  static There there(const UpdateOrder& order, std::int64_t parameters, double share) {
    There left{};
    if (share <= 0) return left;
    auto all = static_cast<std::int64_t>(std::llround(share * static_cast<double>(parameters)));
    for (const UpdatePlace place : order.subgroups) {
      const std::int64_t count = std::min(order.subgroup, parameters);
      parameters -= count;
      left[static_cast<std::size_t>(place)] += count;
    }
    for (const UpdatePlace place : {UpdatePlace::host, UpdatePlace::fetched, UpdatePlace::device}) {
      std::int64_t& own = left[static_cast<std::size_t>(place)];
      own = std::min(own, all);
      all -= own;
    }
    return left;
  }
  /// Those of a subgroup.
  static std::int64_t take(There& left, UpdatePlace place, std::int64_t count) {
    std::int64_t& own = left[static_cast<std::size_t>(place)];
    const std::int64_t taken = std::min(own, count);
    own -= taken;
    return taken;
  }

  static std::int64_t bytes_of(std::int64_t count, double each) {
    return static_cast<std::int64_t>(std::llround(static_cast<double>(count) * each));
  }
  double up_s(std::int64_t bytes) {
    out_.up_bytes += bytes;
    return hw::transfer_time(*rates_.link, bytes);
  }
  double down_s(std::int64_t bytes) {
    out_.down_bytes += bytes;
    return hw::transfer_time(*rates_.link, bytes, 1, hw::LinkDirection::reverse);
  }

  void on_host(std::int64_t count) {
    while (!filled_.empty() && filled_.front().ready_s <= host_) empty_buffer();
    out_.host_parameters += count;
    host_ += static_cast<double>(count) * rates_.host_s;
    const double cast = static_cast<double>(count) * rates_.cast_s;
    const std::int64_t gradients = take(gradients_, UpdatePlace::host, count);
    out_.sent_gradients += count - gradients;
    const std::int64_t sent = count - take(weights_, UpdatePlace::host, count);
    caster_ = std::max(caster_, host_) + cast;
    if (sent > 0) up_ = std::max(up_, caster_) + up_s(bytes_of(sent, rates_.weight_bytes));
    if (order_.casts_wait) host_ = caster_ = sent > 0 ? up_ : caster_;
  }

  void on_device(std::int64_t count) {
    if (const std::int64_t gradients = take(gradients_, UpdatePlace::device, count); gradients > 0) {
      up_ += up_s(bytes_of(gradients, rates_.gradient_bytes));
      device_ = std::max(device_, up_);
    }
    device_ += static_cast<double>(count) * rates_.device_s;
    if (const std::int64_t weights = take(weights_, UpdatePlace::device, count); weights > 0)
      down_ = std::max(down_, device_) + down_s(bytes_of(weights, rates_.weight_bytes));
  }

  void fetch(std::int64_t count) {
    out_.fetched_parameters += count;
    const std::int64_t bytes = bytes_of(count, rates_.state_bytes);
    if (order_.staged) {
      host_ += static_cast<double>(bytes) * rates_.stage_s;
      up_ = std::max(up_, host_);
    }
    const std::int64_t gradients = take(gradients_, UpdatePlace::fetched, count);
    out_.sent_gradients += count - gradients;
    up_ += up_s(bytes + bytes_of(gradients, rates_.gradient_bytes));
    device_ = std::max(device_, up_) + static_cast<double>(count) * rates_.device_s;
    down_ = std::max(down_, device_) +
            down_s(bytes + bytes_of(take(weights_, UpdatePlace::fetched, count), rates_.weight_bytes));
    if (order_.staged) filled_.push_back({down_, bytes});
  }

  void empty_buffer() {
    host_ = std::max(host_, filled_.front().ready_s) + static_cast<double>(filled_.front().bytes) * rates_.stage_s;
    filled_.pop_front();
  }

  const UpdateOrder& order_;
  const UpdateRates& rates_;
  There weights_, gradients_;
  double host_ = 0, device_ = 0, caster_ = 0, up_ = 0, down_ = 0;
  std::deque<Buffer> filled_;
  UpdateRun out_;
};

}  // namespace

std::int64_t subgroup_count(std::int64_t parameters, std::int64_t subgroup) {
  return (parameters + subgroup - 1) / subgroup;
}

UpdateRun update_run(const UpdateOrder& order, const OffloadView& view, const UpdateRates& rates) {
  UpdateRun out = Update(order, view, rates).run(view.parameters);
  out.gradients_wait = order.gradients_wait;
  if (out.host_parameters == 0) return out;
  const auto count = static_cast<double>(out.sent_gradients);
  // Those that are there already are widened too, unless they are kept in fp32.
  const auto widened =
      static_cast<double>(rates.gradient_bytes < 4 ? out.host_parameters + out.fetched_parameters : out.sent_gradients);
  // The host widens what it waits for; what goes beside the backward pass is widened by the device, and twice as long.
  const auto bytes = static_cast<std::int64_t>(std::llround(count * rates.gradient_bytes));
  const std::int64_t sent = order.gradients_wait || rates.gradient_bytes >= 4 ? bytes : 2 * bytes;
  out.down_bytes += sent;
  out.gradients_s = hw::transfer_time(*rates.link, sent, 1, hw::LinkDirection::reverse) +
                    (order.gradients_wait ? widened * rates.widen_s : 0);
  return out;
}

}  // namespace orrery::policies
