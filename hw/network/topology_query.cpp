#include "hw/network/topology_query.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>

namespace orrery::hw {
namespace {

auto ends_of(const Topology& topology, LinkIndex l) {
  return std::pair(topology.links[l].from, topology.links[l].to);
}

/// Bandwidth from hosts on one side of the middle of a grid's dimension to the other side.
double cut_of(const Topology& topology, const std::vector<bool>& second) {
  double cut = 0;
  for (const NetworkLink& link : topology.links)
    if (!second[link.from] && second[link.to]) cut += link.bandwidth;
  return cut;
}

}  // namespace

TopologyNames::TopologyNames(const Topology& topology)
    : topology_(topology), by_name_(topology.nodes.size()), by_ends_(topology.links.size()) {
  std::iota(by_name_.begin(), by_name_.end(), NodeIndex{0});
  std::iota(by_ends_.begin(), by_ends_.end(), LinkIndex{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](NodeIndex a, NodeIndex b) { return topology_.nodes[a] < topology_.nodes[b]; });
  std::sort(by_ends_.begin(), by_ends_.end(), [&](LinkIndex a, LinkIndex b) {
    return std::tuple(ends_of(topology_, a), a) < std::tuple(ends_of(topology_, b), b);
  });
}

std::optional<NodeIndex> TopologyNames::node(std::string_view name) const {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [&](NodeIndex n, std::string_view text) { return topology_.nodes[n] < text; });
  if (found == by_name_.end() || topology_.nodes[*found] != name) return std::nullopt;
  return *found;
}

std::optional<NodeIndex> TopologyNames::node(std::string_view name, const sim::Origin& where,
                                             sim::Faults& faults) const {
  const auto found = node(name);
  if (!found) faults.add(where, fmt::format("unknown node '{}'", name), few_names_hint(name, topology_.nodes));
  return found;
}

std::optional<LinkIndex> TopologyNames::link(std::string_view name, const sim::Origin& where,
                                             sim::Faults& faults) const {
  const auto arrow = name.find("->");
  if (arrow == std::string_view::npos) {
    faults.add(where, fmt::format("expected a link such as \"a->b\" or \"a->b#2\", got \"{}\"", name));
    return std::nullopt;
  }
  std::string_view last = name.substr(arrow + 2);
  std::size_t number = 1;
  if (const auto hash = last.find('#'); hash != std::string_view::npos) {
    const std::string_view digits = last.substr(hash + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc{} || end != digits.data() + digits.size() || number == 0) {
      faults.add(where, fmt::format("expected the number of a cable (1, 2 …) after '#', got \"{}\"", digits));
      return std::nullopt;
    }
    last = last.substr(0, hash);
  }
  const auto from = node(name.substr(0, arrow), where, faults);
  const auto to = node(last, where, faults);
  if (!from || !to) return std::nullopt;
  const auto key = std::pair(*from, *to);
  const auto first = std::lower_bound(by_ends_.begin(), by_ends_.end(), key,
                                      [&](LinkIndex l, const auto& ends) { return ends_of(topology_, l) < ends; });
  std::size_t cables = 0;
  for (auto at = first; at != by_ends_.end() && ends_of(topology_, *at) == key; ++at)
    if (topology_.links[*at].bandwidth > 0 && ++cables == number) return *at;
  faults.add(where, cables == 0
                        ? fmt::format("no link leads from '{}' to '{}'", topology_.nodes[*from], topology_.nodes[*to])
                        : fmt::format("only {} links lead from '{}' to '{}'", cables, topology_.nodes[*from],
                                      topology_.nodes[*to]));
  return std::nullopt;
}

std::string TopologyNames::link_name(LinkIndex link) const {
  const auto key = ends_of(topology_, link);
  auto at = std::lower_bound(by_ends_.begin(), by_ends_.end(), key,
                             [&](LinkIndex l, const auto& ends) { return ends_of(topology_, l) < ends; });
  std::size_t number = 1;
  for (; *at != link; ++at)
    if (topology_.links[*at].bandwidth > 0) ++number;
  const std::string name = topology_.nodes[key.first] + "->" + topology_.nodes[key.second];
  return number == 1 ? name : fmt::format("{}#{}", name, number);
}

std::string few_names_hint(std::string_view name, const std::vector<std::string>& known) {
  constexpr std::size_t kFew = 8;
  if (known.size() <= kFew) return sim::name_hint(name, known);
  if (const std::string near = sim::nearest_name(name, known); !near.empty())
    return fmt::format("did you mean '{}'?", near);
  std::string hint = "known: ";
  for (std::size_t i = 0; i < kFew; ++i) hint += known[i] + ", ";
  return hint + fmt::format("and {} more", known.size() - kFew);
}

std::vector<bool> halves(const Topology& topology) {
  const std::size_t hosts = static_cast<std::size_t>(topology.hosts);
  std::vector<bool> best(hosts);
  for (std::size_t h = hosts / 2; h < hosts; ++h) best[h] = true;
  double least = std::numeric_limits<double>::infinity();
  std::int64_t stride = 1;
  for (const std::int64_t extent : topology.shape.extents) {
    std::vector<bool> second(hosts);
    for (std::size_t h = 0; h < hosts; ++h) second[h] = static_cast<std::int64_t>(h) / stride % extent >= extent / 2;
    stride *= extent;
    if (extent == 1) continue;
    if (const double cut = cut_of(topology, second); cut < least) {
      least = cut;
      best = std::move(second);
    }
  }
  return best;
}

double bisection_bandwidth(const Topology& topology) {
  if (topology.shape.bisection_bytes_per_s) return *topology.shape.bisection_bytes_per_s;
  return max_flow(topology, halves(topology));
}

HostDistance host_distance(const Topology& topology) {
  const TopologyShape& shape = topology.shape;
  if (shape.diameter && shape.longest_latency_s) return {*shape.diameter, *shape.longest_latency_s};
  return measured_host_distance(topology);
}

std::string describe(const Topology& topology) {
  const HostDistance distance = host_distance(topology);
  return fmt::format(
      "kind             {}\nhosts            {}\nswitches         {}\ncables           {}\nbisection        {}\n"
      "diameter         {} links\nlongest latency  {}\n",
      topology.kind, topology.hosts, static_cast<std::int64_t>(topology.nodes.size()) - topology.hosts,
      topology.links.size() / 2, sim::humanise(bisection_bandwidth(topology), sim::Unit::bytes_per_s),
      distance.diameter, sim::humanise(distance.longest_latency_s, sim::Unit::seconds));
}

}  // namespace orrery::hw
