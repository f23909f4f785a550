#include "sim/timeline/assembly.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

namespace orrery::sim {
namespace {

using Event = TimelineEvents::Event;
using Events = std::vector<Event>;
using Carried = TimelineEvents::Carried;

/// Slices of one track, its events in the order of the viewer.
void nest_track(Timeline& out, std::vector<std::uint32_t>& open, Events::iterator begin, Events::iterator end) {
  open.clear();
  const auto by_time = [](const Event& a, const Event& b) { return a.at_ns < b.at_ns; };
  if (!std::is_sorted(begin, end, by_time)) std::stable_sort(begin, end, by_time);
  for (auto event = begin; event != end; ++event) {
    if (event->slice == TimelineEvents::kEnd) {
      if (open.empty()) {
        add_fault(
            out, fmt::format("track {} at {} ns: an end without a slice", out.tracks[event->track].name, event->at_ns));
        continue;
      }
      out.slices[open.back()].end_ns = event->at_ns;
      open.pop_back();
      continue;
    }
    Timeline::Slice& slice = out.slices[event->slice];
    slice.depth = static_cast<std::int32_t>(open.size());
    if (!open.empty()) slice.parent = open.back();
    if (!slice.instant) open.push_back(event->slice);
  }
  for (const std::uint32_t slice : open) {
    Timeline::Slice& left = out.slices[slice];
    left.end_ns = std::prev(end)->at_ns;
    add_fault(out, fmt::format("track {}: the slice '{}' at {} ns has no end", out.tracks[left.track].name,
                               out.names[left.name], left.begin_ns));
  }
}

/// Sorts events by track, keeping their order, then nests each.
void nest(Timeline& out, Events& events) {
  std::vector<std::size_t> from(out.tracks.size() + 1, 0);
  for (const Event& event : events) ++from[event.track + 1];
  std::partial_sum(from.begin(), from.end(), from.begin());
  Events sorted(events.size());
  std::vector<std::uint32_t> open;
  {
    std::vector<std::size_t> next(from.begin(), from.end() - 1);
    for (const Event& event : events) sorted[next[event.track]++] = event;
  }
  Events().swap(events);
  for (std::size_t track = 0; track + 1 < from.size(); ++track)
    nest_track(out, open, sorted.begin() + static_cast<std::ptrdiff_t>(from[track]),
               sorted.begin() + static_cast<std::ptrdiff_t>(from[track + 1]));
}

void sort_slices(Timeline& out, std::vector<Carried>& all) {
  const auto earlier = [](const Timeline::Slice& a, const Timeline::Slice& b) { return a.begin_ns < b.begin_ns; };
  if (std::is_sorted(out.slices.begin(), out.slices.end(), earlier)) return;
  std::vector<std::uint32_t> order(out.slices.size()), place(out.slices.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return earlier(out.slices[a], out.slices[b]); });
  std::vector<Timeline::Slice> slices(out.slices.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    slices[i] = out.slices[order[i]];
    place[order[i]] = i;
  }
  for (Timeline::Slice& slice : slices)
    if (slice.parent != Timeline::kNone) slice.parent = place[slice.parent];
  for (Carried& carried : all) carried.slice = place[carried.slice];
  out.slices.swap(slices);
}

void draw_arrows(Timeline& out, std::vector<Carried>& all) {
  std::stable_sort(all.begin(), all.end(), [&](const Carried& a, const Carried& b) {
    return a.flow != b.flow ? a.flow < b.flow : a.slice < b.slice;
  });
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i + 1;
    while (end < all.size() && all[end].flow == all[i].flow) ++end;
    const std::uint64_t id = all[i].flow;
    if (end == i + 1) add_fault(out, fmt::format("flow {}: it goes from one event to nowhere", id));
    if (!all[end - 1].last) add_fault(out, fmt::format("flow {}: it has no end", id));
    for (; i + 1 < end; ++i) {
      if (all[i].last) add_fault(out, fmt::format("flow {}: it goes on after its end", id));
      out.arrows.push_back({id, all[i].slice, all[i + 1].slice});
    }
    i = end;
  }
}

void check_tracks(Timeline& out, const TimelineEvents& in) {
  for (std::size_t i = 0; i < out.tracks.size(); ++i) {
    Timeline::Track& track = out.tracks[i];
    if (track.kind == Timeline::Kind::counter && track.unit.empty())
      add_fault(out, fmt::format("counter {}: it has no unit", track.name));
    if (track.name.empty()) add_fault(out, fmt::format("track {}: it has no name", track.uuid));
    const auto group = in.by_uuid.find(in.parents[i]);
    const bool described = group != in.by_uuid.end() && out.tracks[group->second].kind == Timeline::Kind::group;
    if (described) track.group = group->second;
    if (described == (track.kind == Timeline::Kind::group))
      add_fault(out, fmt::format("track {}: its group {} is not one", track.name, in.parents[i]));
  }
  std::vector<std::int64_t> last(out.tracks.size(), std::numeric_limits<std::int64_t>::min());
  for (const Timeline::Value& value : out.values) {
    if (value.at_ns < last[value.track])
      add_fault(out,
                fmt::format("counter {}: time runs backwards at {} ns", out.tracks[value.track].name, value.at_ns));
    last[value.track] = value.at_ns;
  }
}

}  // namespace

void assemble(Timeline& out, TimelineEvents& in) {
  nest(out, in.events);
  sort_slices(out, in.carried);
  draw_arrows(out, in.carried);
  check_tracks(out, in);
}

}  // namespace orrery::sim
