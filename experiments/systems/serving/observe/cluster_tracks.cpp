#include "experiments/systems/serving/observe/cluster_tracks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/text_file.hpp"

namespace orrery::experiments {
namespace {

constexpr std::size_t kMostLanes = 256;

}  // namespace

ClusterTracks::ClusterTracks(sim::TimelineWriter& writer, const sim::TickScale& scale, std::vector<sim::TrackId> groups)
    : writer_(writer),
      scale_(scale),
      group_(writer.group("cluster")),
      transfers_(group_, "KV transfer", kMostLanes),
      migrations_(group_, "migration", kMostLanes) {
  for (const sim::TrackId group : groups) replicas_.push_back({.group = group});
}

void ClusterTracks::draw(const ClusterEvent& event, std::uint64_t flow) {
  using Kind = ClusterEvent::Kind;
  const std::int64_t at_ns = nanoseconds(event.at, scale_);
  Replica& replica = replicas_.at(static_cast<std::size_t>(event.replica));
  switch (event.kind) {
    case Kind::routed:
      if (!router_) router_ = writer_.track(group_, "router");
      return writer_.instant(*router_, at_ns, fmt::format("to replica {}", event.replica),
                             {{"request", event.request}, {"replica", event.replica}}, {.id = flow});
    case Kind::transferred:
      return way(transfers_, event, "KV transfer", flow);
    case Kind::migrated:
      return way(migrations_, event, "migration", flow);
    case Kind::failed:
      replica.down = true;
      break;
    case Kind::returned:
      replica.down = false;
      break;
    case Kind::starting:
      replica.power = "starting";
      break;
    case Kind::on:
      replica.power = {};
      break;
    case Kind::draining:
      replica.power = "draining";
      break;
    case Kind::off:
      replica.power = "off";
      break;
  }
  change(replica, at_ns);
}

/// Ends the state that a replica was in, if it is another now.
void ClusterTracks::change(Replica& replica, std::int64_t at_ns) {
  const std::string_view now = replica.down ? "failed" : replica.power;
  if (now == replica.shown) return;
  if (!replica.track) replica.track = writer_.track(replica.group, "state");
  if (!replica.shown.empty() && at_ns > replica.since_ns)
    writer_.slice(*replica.track, replica.since_ns, at_ns, replica.shown);
  replica.shown = now;
  replica.since_ns = at_ns;
  const auto up = std::count_if(replicas_.begin(), replicas_.end(),
                                [](const Replica& r) { return r.shown.empty() || r.shown == "draining"; });
  if (!up_) {
    up_ = writer_.counter(group_, "replicas up", "replicas");
    if (at_ns > 0) writer_.count(*up_, 0, static_cast<double>(replicas_.size()));
  }
  writer_.count(*up_, at_ns, static_cast<double>(up));
}

void ClusterTracks::way(TrackLanes& lanes, const ClusterEvent& event, std::string_view name, std::uint64_t flow) {
  const std::int64_t begin_ns = nanoseconds(event.since, scale_);
  const std::int64_t end_ns = nanoseconds(event.at, scale_);
  const auto track = lanes.take(writer_, begin_ns, end_ns);
  if (!track) return;
  writer_.slice(*track, begin_ns, end_ns, name,
                {{"request", event.request}, {"from", event.from}, {"to", event.replica}, {"bytes", event.bytes}},
                {.id = flow});
}

void ClusterTracks::finish(std::int64_t end_ns) {
  for (Replica& replica : replicas_) {
    if (!replica.shown.empty() && end_ns > replica.since_ns)
      writer_.slice(*replica.track, replica.since_ns, end_ns, replica.shown);
    replica.shown = {};
  }
}

}  // namespace orrery::experiments
