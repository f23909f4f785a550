// Traces of the PyTorch profiler (Kineto, "traceEvents" JSON, gzip or not): the kernels of a run in the order of their
// launches.
//
// A kernel, memcpy or memset is an op. Where the aten operator that launched it is known (External id), has shapes
// (record_shapes) and a kind, the longest of its kernels is an op of that kind with inputs of its own; all others are
// custom ops. Every op keeps what was measured: `kernel` (its name), `runtime_s`, `launch_s` and `start_s` (from the
// first launch), `stream`, and `sync_before` = 1 where the host waited since the launch before. Custom ops of a stream
// are chained by tensors without elements. What a launch waited in the queue is start_s - launch_s (TKLQT sums it).
// Left out: dataflow (the trace has none), host ops without kernels.
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "models/import/file_bytes.hpp"
#include "models/import/importer.hpp"
#include "models/import/kineto_reader.hpp"
#include "sim/base/fault.hpp"

namespace orrery::models {
namespace {

namespace od = simdjson::ondemand;

struct DeviceEvent {
  std::string name;
  double start_us = 0, runtime_us = 0, launch_us = 0;
  std::int64_t correlation = -1, external = -1, stream = 0;
  bool launched = false, kernel = true;
};

struct HostEvent {
  double at_us = 0;
  std::int64_t correlation = -1;
};

struct TraceEvents {
  std::vector<DeviceEvent> device;
  std::vector<HostEvent> launches;
  std::vector<double> syncs;
  std::unordered_map<std::int64_t, kineto::AtenCall> calls;  ///< by External id
  std::int64_t events = 0;
};

/// A number, also where it is written as text.
double number(od::value value) {
  if (value.type() == od::json_type::string)
    return std::strtod(std::string(std::string_view(value.get_string())).c_str(), nullptr);
  return value.get_double();
}

void read_shape(od::array list, std::vector<std::int64_t>& dims, std::vector<std::vector<std::int64_t>>& nested) {
  for (od::value item : list) {
    if (item.type() == od::json_type::number) dims.push_back(item.get_int64());
    if (item.type() == od::json_type::array) {
      std::vector<std::vector<std::int64_t>> deeper;
      nested.emplace_back();
      read_shape(item.get_array(), nested.back(), deeper);
    }
  }
}

void read_texts(od::value value, std::vector<std::string>& out) {
  if (value.type() != od::json_type::array) return;
  for (od::value item : value.get_array()) {
    const bool text = item.type() == od::json_type::string;
    out.emplace_back(text ? std::string(std::string_view(item.get_string())) : std::string{});
  }
}

void read_dims(od::value value, kineto::AtenCall& call) {
  if (value.type() != od::json_type::array) return;
  for (od::value item : value.get_array()) {
    call.dims.emplace_back();
    if (item.type() != od::json_type::array) continue;
    std::vector<std::vector<std::int64_t>> nested;
    read_shape(item.get_array(), call.dims.back(), nested);
    if (!nested.empty()) call.lists.push_back(std::move(nested));
  }
}

/// One event of the trace.
struct Event {
  std::string_view phase, category, name;
  double at = 0, duration = 0;
  std::int64_t correlation = -1, external = -1, stream = 0;
  kineto::AtenCall call;
};

void read_arguments(od::object arguments, Event& event) {
  for (auto field : arguments) {
    const std::string_view key = field.unescaped_key();
    od::value value = field.value();
    if (key == "correlation")
      event.correlation = static_cast<std::int64_t>(number(value));
    else if (key == "External id" || key == "external id")
      event.external = static_cast<std::int64_t>(number(value));
    else if (key == "stream")
      event.stream = static_cast<std::int64_t>(number(value));
    else if (key == "Input Dims")
      read_dims(value, event.call);
    else if (key == "Input type")
      read_texts(value, event.call.types);
    else if (key == "Concrete Inputs")
      read_texts(value, event.call.concrete);
  }
}

Event read_event(od::object object) {
  Event event;
  for (auto field : object) {
    const std::string_view key = field.unescaped_key();
    od::value value = field.value();
    const bool text = value.type() == od::json_type::string;
    if (key == "ph" && text)
      event.phase = value.get_string();
    else if (key == "cat" && text)
      event.category = value.get_string();
    else if (key == "name" && text)
      event.name = value.get_string();
    else if (key == "ts")
      event.at = number(value);
    else if (key == "dur")
      event.duration = number(value);
    else if (key == "args" && value.type() == od::json_type::object)
      read_arguments(value.get_object(), event);
  }
  return event;
}

void take(Event&& event, TraceEvents& out) {
  ++out.events;
  if (event.phase != "X") return;
  const std::string_view c = event.category;
  if (c == "kernel" || c == "gpu_memcpy" || c == "gpu_memset" || c == "Kernel" || c == "Memcpy" || c == "Memset") {
    DeviceEvent kernel{.name = std::string(event.name), .start_us = event.at, .runtime_us = event.duration};
    kernel.correlation = event.correlation;
    kernel.external = event.external;
    kernel.stream = event.stream;
    kernel.kernel = c == "kernel" || c == "Kernel";
    out.device.push_back(std::move(kernel));
  } else if (c == "cuda_runtime" || c == "cuda_driver" || c == "Runtime") {
    if (event.correlation >= 0) out.launches.push_back({event.at, event.correlation});
    if (event.name.find("Synchronize") != std::string_view::npos) out.syncs.push_back(event.at + event.duration);
  } else if ((c == "cpu_op" || c == "Operator") && event.external >= 0) {
    event.call.name = std::string(event.name);
    out.calls.insert_or_assign(event.external, std::move(event.call));
  }
}

TraceEvents read_events(const std::filesystem::path& file) {
  const std::string bytes = read_bytes(file, simdjson::SIMDJSON_PADDING);
  TraceEvents events;
  od::parser parser;
  try {
    od::document document = parser.iterate(bytes.data(), bytes.size(), bytes.size() + simdjson::SIMDJSON_PADDING);
    // Either the events alone, or an object that has them.
    od::array list;
    if (document.type() == od::json_type::array)
      list = document.get_array();
    else
      list = document["traceEvents"].get_array();
    for (od::value item : list) take(read_event(item.get_object()), events);
  } catch (const simdjson::simdjson_error& error) {
    const std::string place = events.events > 0 ? fmt::format("/traceEvents/{}", events.events) : std::string{};
    if (error.error() == simdjson::NO_SUCH_FIELD)
      sim::throw_fault({file.string(), ""}, "expected a profiler trace with an array 'traceEvents'");
    sim::throw_fault({file.string(), place}, fmt::format("expected a whole profiler trace: {}", error.what()));
  }
  return events;
}

/// Gives kernels the times of their launches and puts them in that order.
void order(TraceEvents& events) {
  std::unordered_map<std::int64_t, double> launched;
  for (const HostEvent& host : events.launches) launched.try_emplace(host.correlation, host.at_us);
  for (DeviceEvent& kernel : events.device) {
    const auto found = launched.find(kernel.correlation);
    kernel.launched = found != launched.end();
    kernel.launch_us = kernel.launched ? found->second : kernel.start_us;
  }
  std::stable_sort(events.device.begin(), events.device.end(), [](const DeviceEvent& a, const DeviceEvent& b) {
    return std::pair(a.launch_us, a.start_us) < std::pair(b.launch_us, b.start_us);
  });
  std::sort(events.syncs.begin(), events.syncs.end());
}

class KernelGraph {
 public:
  explicit KernelGraph(TraceEvents events) : events_(std::move(events)) {}

  Imported build() {
    for (std::size_t i = 0; i < events_.device.size(); ++i) {
      const DeviceEvent& kernel = events_.device[i];
      const auto [longest, fresh] = longest_.try_emplace(kernel.external, i);
      if (!fresh && kernel.runtime_us > events_.device[longest->second].runtime_us) longest->second = i;
    }
    for (std::size_t i = 0; i < events_.device.size(); ++i) add(i);
    for (const OpId id : out_.graph.ops())
      for (const TensorId tensor : out_.graph.op(id).outputs)
        if (out_.graph.consumers(tensor).empty()) out_.graph.mark_output(tensor);
    out_.unmapped.assign(unmapped_.begin(), unmapped_.end());
    note(mapped_, "kernels were given the kind of the operator that launched them");
    note(further_, "further kernels of those operators stay custom ops");
    note(unlaunched_, "kernels have no launch in the trace: they stand where they started");
    return std::move(out_);
  }

 private:
  void note(std::int64_t count, std::string_view text) {
    if (count > 0) out_.notes.push_back(fmt::format("{} {}", count, text));
  }

  OpNode node_of(std::size_t i) {
    const DeviceEvent& kernel = events_.device[i];
    const double origin = events_.device.front().launch_us;
    OpNode node;
    node.set("kernel", kernel.name);
    node.set("runtime_s", kernel.runtime_us * 1e-6);
    node.set("launch_s", (kernel.launch_us - origin) * 1e-6);
    node.set("start_s", (kernel.start_us - origin) * 1e-6);
    node.set("stream", SymExpr(kernel.stream));
    bool waited = false;
    for (; next_sync_ < events_.syncs.size() && events_.syncs[next_sync_] <= kernel.launch_us; ++next_sync_)
      waited = i > 0;
    if (waited) node.set("sync_before", SymExpr(1));
    node.target = "gpu";
    node.op_class = hw::OpClass::copy;
    return node;
  }

  void add(std::size_t i) {
    const DeviceEvent& kernel = events_.device[i];
    OpNode node = node_of(i);
    unlaunched_ += kernel.launched ? 0 : 1;
    const auto call = events_.calls.find(kernel.external);
    if (call != events_.calls.end()) {
      node.set("operator", call->second.name);
      node.name = call->second.name;
      if (longest_.at(kernel.external) == i && kernel.kernel && kineto::add_aten(out_.graph, call->second, node)) {
        ++mapped_;
        done_.insert(kernel.external);
        return;
      }
      if (done_.contains(kernel.external))
        ++further_;
      else
        ++unmapped_[call->second.name];
    } else {
      node.name = kernel.kernel ? "kernel" : kernel.name;
      ++unmapped_[kernel.kernel ? "kernel without operator" : "copy or fill"];
    }
    const auto [last, fresh] = last_.try_emplace(kernel.stream);
    if (!fresh) node.inputs.push_back(last->second);
    const OpId id = out_.graph.add(
        std::move(node), {Tensor{.name = fmt::format("{}.done", i), .shape = {0}, .type = ElementType::int8}});
    last->second = out_.graph.op(id).outputs.front();
  }

  TraceEvents events_;
  std::size_t next_sync_ = 0;
  std::unordered_map<std::int64_t, std::size_t> longest_;
  std::set<std::int64_t> done_;
  std::map<std::int64_t, TensorId> last_;  ///< by stream
  std::map<std::string, std::int64_t> unmapped_;
  std::int64_t mapped_ = 0, further_ = 0, unlaunched_ = 0;
  Imported out_;
};

}  // namespace

Imported import_kineto(const std::filesystem::path& file) {
  TraceEvents events = read_events(file);
  if (events.device.empty())
    sim::throw_fault({file.string(), "/traceEvents"},
                     fmt::format("expected kernels, got {} events without any", events.events));
  order(events);
  Imported out = KernelGraph(std::move(events)).build();
  out.graph.name = file.stem().string();
  return out;
}

}  // namespace orrery::models
