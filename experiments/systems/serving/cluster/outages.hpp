// When replicas fail and come back: times from a list, or drawn (exponential, one stream a replica).
#pragma once

#include <optional>
#include <vector>

#include "experiments/systems/serving/config/cluster_config.hpp"
#include "sim/base/random.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments {

/// [begin, end) in which a replica is down.
struct Outage {
  sim::Time begin, end;
};

class Outages {
 public:
  Outages(const FailureParams& params, const sim::TickScale& scale, sim::RandomStream random, std::size_t replicas);
  /// The outage of a replica that is under way at `now` or comes next; nothing if there is none within the reach of
  /// time. `now` never goes back.
  std::optional<Outage> next(std::size_t replica, sim::Time now);

 private:
  struct Of {
    sim::RandomStream random;
    std::vector<Outage> listed;  // by time
    std::size_t place = 0;
    std::optional<Outage> drawn;
    bool over = false;  // time ends before the next
  };
  bool draw(Of& of) const;

  std::optional<double> mtbf_s_;
  double mttr_s_;
  sim::TickScale scale_;
  std::vector<Of> of_;
};

}  // namespace orrery::experiments
