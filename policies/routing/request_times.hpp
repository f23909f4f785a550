// How long requests take with nobody beside them, replica by replica, and how much of that is before a replica: what
// routers over unlike replicas compare.
#pragma once

#include <unordered_map>
#include <vector>

#include "policies/routing/routing.hpp"

namespace orrery::policies {

class RequestTimes {
 public:
  /// Seconds that the request would take alone at each replica of the view, in its order (alone_ps; an output of 128
  /// tokens where none is predicted); 0 where nobody knows what iterations cost. Valid until the next call.
  std::span<const double> alone_s(const RouteView& view);
  /// The sum of these over the requests that were sent to a replica and have not left.
  double ahead_s(const ReplicaFacts& replica) const;
  /// The request of the view goes to the replica at this place, after alone_s().
  void sent(const RouteView& view, std::size_t place);
  /// A request is no longer where it was sent (Router::left).
  void left(std::int64_t request);

 private:
  struct Placed {
    std::size_t replica;
    double alone_s;
  };
  std::vector<double> alone_s_, ahead_s_;            ///< by place; by number of the replica
  std::unordered_map<std::int64_t, Placed> placed_;  ///< by request; never walked
};

}  // namespace orrery::policies
