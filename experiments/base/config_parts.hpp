// What the configs of all systems share: the keys beside the sections, sections that may be absent, the length of a
// tick, the window of a timeline.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/base/kernel.hpp"
#include "sim/base/params.hpp"
#include "sim/base/units.hpp"
#include "sim/timeline/timeline.hpp"

namespace orrery::experiments {

/// A resolved config without its sections yet.
sim::Node resolved_header(std::string_view system);

/// Keys that every config may have beside its system's sections; `base` is gone by then.
inline constexpr std::array<std::string_view, 6> kCommonKeys{"$schema", "title", "kind", "version", "system", "base"};

/// Reads the sections of a config, policies included. Reports every fault that the field tables can tell.
template <sim::Parameters S>
S read_sections(const sim::Node& root, const sim::RegistrySet& registries, sim::Faults& faults) {
  return sim::parse_params<S>(root, registries, faults, kCommonKeys);
}
/// The resolved config of a system whose sections are `params`.
template <sim::Parameters S>
sim::Node resolved_config(std::string_view system, const S& params) {
  sim::Node root = resolved_header(system);
  const sim::Node sections = sim::write_params(params);
  for (const auto& [name, section] : sections.members()) root.set(name, section);
  return root;
}

/// The member of that name, or an empty object that stands where it would stand.
sim::Node section(const sim::Node& root, std::string_view name);

/// Where the member of that name stands, or would stand.
sim::Origin place_of(const sim::Node& node, std::string_view name);

/// Reports a tick that is no whole number of ps; `run` is the section that holds it.
void check_tick(const sim::Node& run, double tick_s, sim::Faults& faults);
/// The scale of a tick that passed check_tick.
sim::TickScale tick_scale(double tick_s);

/// The section `run` of a system that makes one run of one thing.
struct PlainRunParams {
  std::int64_t seed = 1;
  double tick_s = 1e-12;
  bool timeline = true;
  static sim::FieldRows<PlainRunParams> fields();
};

/// The part of a timeline that is shown, as fields of parameters `P` with begin_s, end_s, counter_interval_s and
/// limit_bytes.
template <class P>
constexpr auto timeline_window_fields() {
  using sim::Unit;
  return sim::FieldTable{
      sim::field("begin", &P::begin_s, Unit::seconds, sim::at_least(0),
                 "Start of the time span that the timeline shows."),
      sim::field("end", &P::end_s, Unit::seconds, sim::positive(),
                 "End of the time span that the timeline shows; null: the end of the run."),
      sim::field("counter_interval", &P::counter_interval_s, Unit::seconds, sim::at_least(0),
                 "Interval in which only the last value of each counter is shown; 0: all values."),
      sim::field("limit", &P::limit_bytes, Unit::bytes, sim::between(65'536, 1e12),
                 "Largest size of the file; what comes after it is full is left out, and the run reports that.")};
}
/// Reports a window that ends before it begins; `timeline` is the section that holds it.
void check_timeline(const sim::Node& timeline, double begin_s, std::optional<double> end_s, sim::Faults& faults);
/// How such a timeline is written.
sim::TimelineOptions timeline_options(double begin_s, std::optional<double> end_s, double counter_interval_s,
                                      std::int64_t limit_bytes);
/// What a run says of a timeline that is full; nothing if it is not.
std::optional<std::string> timeline_note(const sim::TimelineWriter& timeline, std::int64_t limit_bytes);

}  // namespace orrery::experiments
