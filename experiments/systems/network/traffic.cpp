#include "experiments/systems/network/traffic.hpp"

#include <numeric>
#include <stdexcept>
#include <utility>

namespace orrery::experiments::network {

TrafficMatrix::TrafficMatrix(const Traffic& traffic, const sim::Engine& engine)
    : traffic_(traffic), ends_(engine.stream("traffic")), sizes_(engine.stream("traffic/bytes")) {
  if (traffic.params.pattern != Pattern::permutation) return;
  partner_.resize(traffic.hosts.size());
  std::iota(partner_.begin(), partner_.end(), std::size_t{0});
  for (std::size_t i = partner_.size() - 1; i > 0; --i) std::swap(partner_[i], partner_[ends_.below(i)]);
}

std::pair<std::size_t, std::size_t> TrafficMatrix::next_ends() {
  const std::size_t n = traffic_.hosts.size();
  const std::uint64_t i = count_++;
  const std::size_t turn = i % n;
  switch (traffic_.params.pattern) {
    case Pattern::uniform: {
      const std::size_t from = ends_.below(n);
      const std::size_t other = ends_.below(n - 1);
      return {from, other < from ? other : other + 1};
    }
    case Pattern::permutation:
      return {turn, partner_[turn]};
    case Pattern::incast: {
      const std::size_t other = i % (n - 1);
      return {other < traffic_.target ? other : other + 1, traffic_.target};
    }
    case Pattern::all_to_all:
      return {turn, (turn + 1 + i / n % (n - 1)) % n};
    case Pattern::neighbour:
      return {turn, (turn + 1) % n};
  }
  throw std::logic_error("a traffic pattern without ends");
}

TrafficMatrix::Pair TrafficMatrix::next() {
  const auto [from, to] = next_ends();
  std::int64_t bytes = traffic_.params.bytes;
  if (traffic_.params.bytes_max)
    bytes +=
        static_cast<std::int64_t>(sizes_.below(static_cast<std::uint64_t>(*traffic_.params.bytes_max - bytes) + 1));
  return {traffic_.hosts[from], traffic_.hosts[to], bytes};
}

}  // namespace orrery::experiments::network
