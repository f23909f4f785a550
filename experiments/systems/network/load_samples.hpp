// Loads of all links over time, in bounded memory: where there are too many samples every second one goes and their
// spacing doubles, so the run need not be known beforehand.
#pragma once

#include <utility>
#include <vector>

#include "sim/flow_network.hpp"

namespace orrery::experiments::network {

class LoadSamples {
 public:
  /// For so many links; keeps nothing if they are too many to sample.
  explicit LoadSamples(std::size_t links);
  bool enabled() const { return limit_ > 0; }

  /// The loads that held up to `now`, if a sample is due.
  void take(sim::Time now, const sim::FlowNetwork& flows);

  struct Sample {
    sim::Time from;           ///< the loads hold from here to the next sample
    std::vector<float> load;  ///< bytes per second, by link
  };
  const std::vector<Sample>& samples() const { return samples_; }
  sim::Time end() const { return last_; }

 private:
  std::size_t links_, limit_;
  std::vector<Sample> samples_;
  sim::Time last_;
  std::int64_t spacing_ = 1;  // ticks
};

}  // namespace orrery::experiments::network
