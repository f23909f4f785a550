#include "experiments/systems/serving/cluster/outages.hpp"

#include <algorithm>

namespace orrery::experiments {

Outages::Outages(const FailureParams& params, const sim::TickScale& scale, sim::RandomStream random,
                 std::size_t replicas)
    : mtbf_s_(params.mtbf_s), mttr_s_(params.mttr_s), scale_(scale) {
  for (std::size_t i = 0; i < replicas; ++i) of_.push_back({random.child(i), {}, 0, {}, false});
  for (const OutageParams& outage : params.at) {
    const sim::Time begin = sim::Time{0} + scale.duration(outage.time_s);
    of_[static_cast<std::size_t>(outage.replica)].listed.push_back({begin, begin + scale.duration(outage.duration_s)});
  }
  for (Of& of : of_)
    std::sort(of.listed.begin(), of.listed.end(), [](const Outage& a, const Outage& b) { return a.begin < b.begin; });
}

/// The next outage after that drawn last; false if time ends before it does.
bool Outages::draw(Of& of) const {
  const sim::Time from = of.drawn ? of.drawn->end : sim::Time{0};
  const double up = of.random.exponential(*mtbf_s_);
  const double down = mttr_s_ > 0 ? of.random.exponential(mttr_s_) : 0;
  const double left = scale_.seconds(sim::kNever) - scale_.seconds(from);
  if (up + down > 0.5 * left) return false;
  const sim::Time begin = from + scale_.duration(up);
  of.drawn = Outage{begin, begin + scale_.duration(down)};
  return true;
}

std::optional<Outage> Outages::next(std::size_t replica, sim::Time now) {
  Of& of = of_[replica];
  while (of.place < of.listed.size() && of.listed[of.place].end <= now) ++of.place;
  std::optional<Outage> next;
  if (of.place < of.listed.size()) next = of.listed[of.place];
  if (!mtbf_s_) return next;
  while (!of.over && (!of.drawn || of.drawn->end <= now)) of.over = !draw(of);
  if (!of.over && (!next || of.drawn->begin < next->begin)) next = of.drawn;
  return next;
}

}  // namespace orrery::experiments
