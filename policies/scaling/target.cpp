// Target tracking, the rule of Kubernetes' horizontal autoscaler: with a load a replica of m and a target of t,
//     wanted = ceil(up x m / t), unless m / t is within `tolerance` of 1.
// More are wanted at once; fewer only if the most wanted in the last `stabilisation` was fewer.
#include <deque>

#include "policies/scaling/scaling.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::policies {
namespace {

enum class ScaleOn : std::uint8_t { utilisation, requests, queued_tokens };
constexpr auto enum_names(ScaleOn) {
  using enum ScaleOn;
  return sim::names<ScaleOn>({{"utilisation", utilisation}, {"requests", requests}, {"queued_tokens", queued_tokens}});
}

struct TargetParams {
  ScaleOn metric = ScaleOn::requests;
  double target = 32;
  double tolerance = 0.1;
  double stabilisation_s = 300;

  static constexpr auto fields();
};

constexpr auto TargetParams::fields() {
  using T = TargetParams;
  return sim::FieldTable{
      sim::field("metric", &T::metric,
                 "Load of a replica: the share of time in which it has requests, its requests, or its tokens still to "
                 "prefill."),
      sim::field("target", &T::target, sim::Unit::none, sim::between(1e-6, 1e12),
                 "Load per replica to aim at, in the unit of metric."),
      sim::field("tolerance", &T::tolerance, sim::Unit::ratio, sim::between(0, 10),
                 "Relative deviation from the target up to which nothing is changed."),
      sim::field("stabilisation", &T::stabilisation_s, sim::Unit::seconds, sim::at_least(0),
                 "Window of past decisions: replicas are stopped only if no decision in it wanted them.")};
}

class Target final : public Scaling {
 public:
  explicit Target(const TargetParams& params) : params_(params) {}
  std::int64_t wanted(const ScalingView& view) override {
    const auto up = static_cast<double>(view.up());
    double load = static_cast<double>(view.parked);
    for (const ReplicaFacts& facts : view.replicas)
      load += static_cast<double>(params_.metric == ScaleOn::queued_tokens ? facts.queued_tokens : facts.requests);
    if (params_.metric == ScaleOn::utilisation)
      load = view.busy * static_cast<double>(std::ssize(view.replicas)) + static_cast<double>(view.parked > 0);
    std::int64_t now = view.up();
    if (up == 0 || load / up > params_.target * (1 + params_.tolerance) ||
        load / up < params_.target * (1 - params_.tolerance)) {
      const double exact = load / params_.target;
      now = static_cast<std::int64_t>(exact);
      if (static_cast<double>(now) < exact) ++now;
    }
    return stabilised(view, now);
  }

 private:
  /// The most wanted in the window.
  std::int64_t stabilised(const ScalingView& view, std::int64_t now) {
    const double window_ticks = params_.stabilisation_s * 1e12 / static_cast<double>(view.ps_per_tick);
    while (!answers_.empty() && static_cast<double>((view.now - answers_.front().at).ticks) > window_ticks)
      answers_.pop_front();
    while (!answers_.empty() && answers_.back().wanted <= now) answers_.pop_back();
    answers_.push_back({view.now, now});
    return answers_.front().wanted;
  }

  struct Answer {
    sim::Time at;
    std::int64_t wanted = 0;
  };
  TargetParams params_;
  std::deque<Answer> answers_;  // of the window, falling
};

}  // namespace

void add_target_scaling(ScalingRegistry& registry) {
  registry.add<TargetParams>("target", "As many replicas as bring the load per replica to its target.",
                             [](const TargetParams& params) { return std::make_unique<Target>(params); });
}

}  // namespace orrery::policies
