#include "experiments/systems/network/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

namespace orrery::experiments::network {
namespace {

using hw::NodeIndex;

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// "first-last" or "first-last:step" of numbers; nothing if the text is not of that form.
struct HostRange {
  std::int64_t first = 0, last = 0, step = 1;
};
std::optional<HostRange> range_of(std::string_view text) {
  HostRange range;
  if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    const auto step = whole_number(text.substr(colon + 1));
    if (!step) return std::nullopt;
    range.step = *step;
    text = text.substr(0, colon);
  }
  const std::size_t dash = text.find('-', 1);
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = whole_number(text.substr(0, dash));
  const auto last = whole_number(text.substr(dash + 1));
  if (!first || !last) return std::nullopt;
  range.first = *first;
  range.last = *last;
  return range;
}

std::string numbers_there_are(const hw::Topology& topology) {
  return fmt::format("the network has hosts 0 to {}", topology.hosts - 1);
}

/// A number that the network has no host of.
void add_missing(std::int64_t number, const hw::Topology& topology, const sim::Origin& where, sim::Faults& faults) {
  faults.add(where, fmt::format("expected a host, got number {}", number), numbers_there_are(topology));
}

}  // namespace

std::vector<NodeIndex> all_hosts(const hw::Topology& topology) {
  std::vector<NodeIndex> hosts(static_cast<std::size_t>(topology.hosts));
  std::iota(hosts.begin(), hosts.end(), NodeIndex{0});
  return hosts;
}

std::optional<NodeIndex> parse_host(const std::string& text, const hw::Topology& topology,
                                    const hw::TopologyNames& names, const sim::Origin& where, sim::Faults& faults) {
  const std::string name(trimmed(text));
  if (const auto number = whole_number(name)) {
    if (*number >= 0 && *number < topology.hosts) return static_cast<NodeIndex>(*number);
    add_missing(*number, topology, where, faults);
    return std::nullopt;
  }
  const auto node = names.node(name);
  if (node && *node < topology.hosts) return node;
  if (node) {
    faults.add(where, fmt::format("expected a host, got switch '{}'", name));
  } else {
    const auto hosts = topology.nodes.begin() + static_cast<std::ptrdiff_t>(topology.hosts);
    faults.add(where, fmt::format("unknown host '{}'", name),
               hw::few_names_hint(name, std::vector<std::string>(topology.nodes.begin(), hosts)));
  }
  return std::nullopt;
}

std::vector<NodeIndex> parse_hosts(const sim::TextList& list, const hw::Topology& topology,
                                   const hw::TopologyNames& names, const sim::Origin& where, sim::Faults& faults) {
  std::vector<NodeIndex> hosts;
  std::vector<bool> taken(static_cast<std::size_t>(topology.hosts));
  const std::size_t before = faults.size();
  const auto take = [&](NodeIndex host) {
    if (taken[host] && faults.size() == before)  // one is enough: overlapping ranges would repeat it
      faults.add(where, fmt::format("host '{}' stands twice", topology.nodes[host]));
    taken[host] = true;
    hosts.push_back(host);
  };
  for (const std::string& item : list.items) {
    const std::string_view text = trimmed(item);
    const auto range = names.node(text) ? std::nullopt : range_of(text);
    if (!range) {
      if (const auto host = parse_host(item, topology, names, where, faults)) take(*host);
    } else if (range->first < 0 || range->last < range->first || range->step < 1) {
      faults.add(where, fmt::format("expected a range such as \"0-7\" or \"0-62:2\", got \"{}\"", text));
    } else if (range->last >= topology.hosts) {
      add_missing(range->last, topology, where, faults);
    } else {
      for (std::int64_t h = range->first; h <= range->last && faults.size() == before; h += range->step)
        take(static_cast<NodeIndex>(h));
    }
  }
  if (list.items.empty()) faults.add(where, "expected at least one host, got none");
  return hosts;
}

}  // namespace orrery::experiments::network
