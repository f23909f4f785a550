#include "experiments/base/config_parts.hpp"

#include <fmt/format.h>

#include <cmath>

namespace orrery::experiments {

using sim::Node;

Node section(const Node& root, std::string_view name) {
  if (const Node* node = root.find(name); node != nullptr && !node->is_null()) return *node;
  Node empty = Node::object();
  empty.set_origin(root.origin_of(name));
  return empty;
}

sim::Origin place_of(const Node& node, std::string_view name) {
  const Node* member = node.find(name);
  return member != nullptr ? member->origin() : node.origin_of(name);
}

Node resolved_header(std::string_view system) {
  Node root = Node::object();
  root.set("kind", Node::string("experiment"));
  root.set("version", Node::integer(1));
  root.set("system", Node::string(std::string(system)));
  return root;
}

void check_tick(const Node& run, double tick_s, sim::Faults& faults) {
  const double ps = tick_s * 1e12;
  if (std::fabs(ps - std::round(ps)) > 1e-6)
    faults.add(run.origin_of("tick"), fmt::format("expected a whole number of ps, got {} ps", ps));
}

sim::TickScale tick_scale(double tick_s) {
  return sim::TickScale(static_cast<std::int64_t>(std::llround(tick_s * 1e12)));
}

void check_timeline(const Node& timeline, double begin_s, std::optional<double> end_s, sim::Faults& faults) {
  if (end_s && *end_s <= begin_s)
    faults.add(timeline.origin_of("end"), fmt::format("expected more than begin, {} s, got {} s", begin_s, *end_s));
}

sim::TimelineOptions timeline_options(double begin_s, std::optional<double> end_s, double counter_interval_s,
                                      std::int64_t limit_bytes) {
  const sim::TickScale nanoseconds(1000);
  sim::TimelineOptions options;
  options.window.begin_ns = nanoseconds.duration(begin_s).ticks;
  if (end_s) options.window.end_ns = nanoseconds.duration(*end_s).ticks;
  options.counter_interval_ns = nanoseconds.duration(counter_interval_s).ticks;
  options.max_bytes = limit_bytes;
  return options;
}

std::optional<std::string> timeline_note(const sim::TimelineWriter& timeline, std::int64_t limit_bytes) {
  if (timeline.left_out() == 0) return std::nullopt;
  return fmt::format("timeline.pftrace is full (run.timeline.limit, {} bytes): {} events are left out", limit_bytes,
                     timeline.left_out());
}

sim::FieldRows<PlainRunParams> PlainRunParams::fields() {
  using sim::Unit;
  using R = PlainRunParams;
  static const sim::FieldTable table{
      sim::field("seed", &R::seed, Unit::none, sim::at_least(0), "Seed of everything that is drawn at random."),
      sim::field("tick", &R::tick_s, Unit::seconds, sim::between(1e-12, 1e-3),
                 "Resolution of time, a whole number of ps."),
      sim::field("timeline", &R::timeline, "Whether timeline.pftrace is written.")};
  return table;
}

}  // namespace orrery::experiments
