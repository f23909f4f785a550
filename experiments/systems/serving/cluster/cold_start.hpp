// How long a replica takes to come up: the four components of a serverless cold start (Joosen et al., EuroSys 2025,
// arXiv 2410.06145), with the weights of the model in place of the dependencies.
//
//   scheduling   a scheduler places it: `scheduling`, at most `schedulers` at once
//   allocation   a reserved pod is selected (`select`), or where none is left one is made (`create`, at most `creators`
//                at once); the pool makes another for every one it gave away, in `create`
//   code         the server's program starts: `code`
//   load         weights come from storage: bytes / `storage_bandwidth`, at most `loads` at once at that bandwidth
// Each stage serves first come, first served, in the order in which the starts began; waiting counts with the stage, so
// that starts which come together take longer.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/systems/serving/config/cluster_config.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments {

/// One start, or many summed.
struct ColdStart {
  sim::Duration scheduling{}, allocation{}, code{}, load{};
  sim::Duration total() const { return scheduling + allocation + code + load; }
};

class ColdStarts {
 public:
  ColdStarts(const ColdStartParams& params, const sim::TickScale& scale);
  /// A replica with so many bytes of weights on each device is started now; time never goes back.
  ColdStart start(sim::Time now, std::int64_t weight_bytes);

 private:
  /// Servers in a row: when each is free again.
  static sim::Time serve(std::vector<sim::Time>& servers, sim::Time ready, sim::Duration time);

  ColdStartParams params_;
  sim::TickScale scale_;
  std::vector<sim::Time> schedulers_, pool_, creators_, loads_;
};

}  // namespace orrery::experiments
