// Serverless (Joosen et al., EuroSys 2025, arXiv 2410.06145: 60 s): a replica goes when it has had nothing to do for
// `keep_alive`; another comes when those that are up or starting have `concurrency` requests each, queued ones counted.
#include <algorithm>

#include "policies/scaling/scaling.hpp"

namespace orrery::policies {
namespace {

struct KeepAliveParams {
  double keep_alive_s = 60;
  std::int64_t concurrency = 16;

  static constexpr auto fields() {
    using K = KeepAliveParams;
    return sim::FieldTable{
        sim::field("keep_alive", &K::keep_alive_s, sim::Unit::seconds, sim::at_least(0),
                   "Idle time after which a replica is stopped."),
        sim::field("concurrency", &K::concurrency, sim::Unit::requests, sim::between(1, 1e12),
                   "Requests per replica, queued ones included, above which another replica is started.")};
  }
};

class KeepAlive final : public Scaling {
 public:
  explicit KeepAlive(const KeepAliveParams& params) : params_(params) {}
  std::int64_t wanted(const ScalingView& view) override {
    const double keep_ticks = params_.keep_alive_s * 1e12 / static_cast<double>(view.ps_per_tick);
    std::int64_t requests = view.parked, kept = view.starting;
    for (std::size_t i = 0; i < view.replicas.size(); ++i) {
      requests += view.replicas[i].requests;
      const bool idle = view.idle_since[i] != sim::kNever;
      if (!idle || static_cast<double>((view.now - view.idle_since[i]).ticks) < keep_ticks) ++kept;
    }
    return std::max(kept, (requests + params_.concurrency - 1) / params_.concurrency);
  }

 private:
  KeepAliveParams params_;
};

}  // namespace

void add_keep_alive(ScalingRegistry& registry) {
  registry.add<KeepAliveParams>("keep_alive",
                                "Serverless: a replica is up while it has requests, and for a while after.",
                                [](const KeepAliveParams& params) { return std::make_unique<KeepAlive>(params); });
}

}  // namespace orrery::policies
