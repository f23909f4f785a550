// What fusing is worth: bytes at the device's bandwidth and launches at their cost, read off the device's own prices.
//
// A device is asked two questions: how long a large pass over memory takes (its bandwidth) and how long an almost empty
// one takes (what a kernel costs before it moves anything). Without a device, bytes are seconds of a nominal machine,
// one byte a picosecond, and a launch is worth a megabyte: the order in which merges are tried is all that depends on
// it.
#pragma once

#include <map>
#include <string>

#include "models/graph/op_graph.hpp"
#include "policies/base/graph_pass.hpp"

namespace orrery::policies {

struct FusionPrices {
  double byte_s = 1e-12;   ///< a byte less to move, s
  double launch_s = 1e-6;  ///< a kernel less, s
  explicit FusionPrices(const PassContext& context);
};

/// Times of ops on the device, remembered: layers of a model repeat.
class PricedOps {
 public:
  explicit PricedOps(const PassContext& context) : context_(context) {}
  /// Time of the op's kernels, launches included, s.
  double time_s(const models::OpGraph& graph, models::OpId op);

 private:
  const PassContext& context_;
  std::map<std::string, double> known_;
};

}  // namespace orrery::policies
