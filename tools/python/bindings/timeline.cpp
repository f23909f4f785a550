// Timelines as columns: whole numbers for tracks and names, which the package turns into categories.
#include "sim/timeline/reader.hpp"

#include <algorithm>

#include "tools/python/bindings/bindings.hpp"

namespace orrery::python {
namespace {

constexpr double kSeconds = 1e-9;

/// One member of each row, through `get`.
template <class Row, class Get>
auto column(const std::vector<Row>& rows, Get get) {
  std::vector<decltype(get(rows.front()))> values(rows.size());
  std::transform(rows.begin(), rows.end(), values.begin(), get);
  return to_array(std::move(values));
}

std::int64_t number(std::uint32_t index) {
  return index == sim::Timeline::kNone ? -1 : static_cast<std::int64_t>(index);
}

py::dict slices_of(const sim::Timeline& timeline) {
  using Slice = sim::Timeline::Slice;
  py::dict table;
  table["track"] = column(timeline.slices, [](const Slice& s) { return static_cast<std::int32_t>(s.track); });
  table["name"] = column(timeline.slices, [](const Slice& s) { return static_cast<std::int32_t>(s.name); });
  table["start_s"] = column(timeline.slices, [](const Slice& s) { return static_cast<double>(s.begin_ns) * kSeconds; });
  table["duration_s"] =
      column(timeline.slices, [](const Slice& s) { return static_cast<double>(s.end_ns - s.begin_ns) * kSeconds; });
  table["depth"] = column(timeline.slices, [](const Slice& s) { return static_cast<std::int64_t>(s.depth); });
  table["parent"] = column(timeline.slices, [](const Slice& s) { return number(s.parent); });
  py::array_t<bool> instant(static_cast<py::ssize_t>(timeline.slices.size()));
  std::transform(timeline.slices.begin(), timeline.slices.end(), instant.mutable_data(),
                 [](const Slice& s) { return s.instant; });
  table["instant"] = std::move(instant);
  return table;
}

py::dict arguments_of(const sim::Timeline& timeline) {
  std::vector<std::int64_t> ids, values;
  std::vector<std::int32_t> names;
  for (std::size_t id = 0; id < timeline.slices.size(); ++id)
    for (const sim::Timeline::Argument& argument : timeline.arguments_of(timeline.slices[id])) {
      ids.push_back(static_cast<std::int64_t>(id));
      names.push_back(static_cast<std::int32_t>(argument.name));
      values.push_back(argument.value);
    }
  py::dict table;
  table["id"] = to_array(std::move(ids));
  table["name"] = to_array(std::move(names));
  table["value"] = to_array(std::move(values));
  return table;
}

py::dict read_timeline(const std::string& path) {
  sim::Timeline timeline;
  {
    const py::gil_scoped_release release;
    timeline = sim::read_timeline(path);
  }
  py::list tracks;
  for (const sim::Timeline::Track& track : timeline.tracks) {
    const bool grouped = track.group != sim::Timeline::kNone;
    const char* kinds[] = {"process", "slices", "counter"};
    tracks.append(py::make_tuple(grouped ? timeline.tracks[track.group].name : track.name,
                                 grouped ? track.name : std::string(), kinds[static_cast<int>(track.kind)],
                                 track.unit));
  }
  using Value = sim::Timeline::Value;
  using Arrow = sim::Timeline::Arrow;
  py::dict counters, flows, all;
  counters["track"] = column(timeline.values, [](const Value& v) { return static_cast<std::int32_t>(v.track); });
  counters["time_s"] = column(timeline.values, [](const Value& v) { return static_cast<double>(v.at_ns) * kSeconds; });
  counters["value"] = column(timeline.values, [](const Value& v) { return v.value; });
  flows["flow"] = column(timeline.arrows, [](const Arrow& a) { return static_cast<std::int64_t>(a.id); });
  flows["from"] = column(timeline.arrows, [](const Arrow& a) { return number(a.from); });
  flows["to"] = column(timeline.arrows, [](const Arrow& a) { return number(a.to); });
  all["tracks"] = tracks;
  all["names"] = py::cast(timeline.names);
  all["slices"] = slices_of(timeline);
  all["arguments"] = arguments_of(timeline);
  all["counters"] = counters;
  all["flows"] = flows;
  all["faults"] = py::cast(timeline.faults);
  return all;
}

}  // namespace

void bind_timeline(py::module_& module) {
  module.def("read_timeline", &read_timeline, py::arg("path"),
             "A .pftrace file as columns, with the tracks and names that they refer to.");
}

}  // namespace orrery::python
