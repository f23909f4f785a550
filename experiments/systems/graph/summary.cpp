#include "experiments/systems/graph/summary.hpp"

#include <array>

#include "experiments/base/figures.hpp"

namespace orrery::experiments::graph {
namespace {

using sim::Node;

Node memory_node(const MemoryFigures& memory) {
  Node node = Node::object();
  node.set("peak", Node::integer(memory.peak()));
  node.set("parameters", Node::integer(memory.parameters));
  node.set("state", Node::integer(memory.state));
  node.set("inputs", Node::integer(memory.inputs));
  node.set("activations", Node::integer(memory.planned));
  node.set("live", Node::integer(memory.live));
  node.set("planned", Node::integer(memory.planned));
  node.set("fragmentation",
           ratio(static_cast<double>(memory.planned - memory.live), static_cast<double>(memory.planned)));
  return node;
}

Node energy_node(const sim::EnergyLedger& ledger, double samples) {
  Node node = Node::object();
  node.set("total", Node::real(static_cast<double>(ledger.total_pj()) * 1e-12));
  for (const sim::EnergyLedger::Account& account : ledger.accounts())
    node.set(account.category, Node::real(static_cast<double>(account.pj) * 1e-12));
  node.set("per_sample", ratio(static_cast<double>(ledger.total_pj()) * 1e-12, samples));
  return node;
}

Node compile_node(const GraphResult& r) {
  Node node = Node::object();
  node.set("total", Node::real(r.compile_s));
  node.set("worst_stall", Node::real(r.worst_stall_s));
  node.set("worst_kernel", Node::real(r.worst_kernel_compile_s));
  node.set("startup", Node::real(r.startup_s));
  node.set("count", Node::integer(r.compiled));
  return node;
}

Node traffic_node(const GraphResult& r) {
  Node node = Node::object();
  node.set("read", Node::real(r.read_bytes));
  node.set("write", Node::real(r.write_bytes));
  node.set("total", Node::real(r.read_bytes + r.write_bytes));
  node.set("transferred", Node::real(r.transfer_bytes));
  return node;
}

Node graph_node(const GraphConfig& config, const GraphResult& r) {
  Node node = Node::object();
  const double requests = static_cast<double>(std::max<std::int64_t>(1, std::ssize(r.requests)));
  node.set("ops", Node::integer(r.ops));
  node.set("tensors", Node::integer(r.tensors));
  node.set("kernels", Node::real(static_cast<double>(r.launches.kernels) / requests));
  node.set("flops", Node::real(r.flops / requests));
  Node unmapped = Node::object();
  for (const auto& [name, count] : config.unmapped) unmapped.set(name, Node::integer(count));
  node.set("unmapped", std::move(unmapped));
  return node;
}

Node device_node(const GraphDevice& device) {
  Node node = Node::object();
  node.set("name", Node::string(device.name));
  node.set("area_mm2", device.area ? Node::real(device.area->total) : Node{});
  node.set("usd", device.area ? Node::real(device.area->usd) : Node{});
  return node;
}

}  // namespace

Node summarise(const GraphConfig& config, const GraphResult& r) {
  constexpr std::array<std::pair<const char*, double>, 4> kQuantiles{
      {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}}};
  Node root = Node::object();
  root.set("status", Node::string(r.status));
  if (r.status != "ok") {
    root.set("reason", Node::string(r.reason));
    if (r.needed_bytes > 0) {  // else it is not memory that is short
      root.set("needed_bytes", Node::integer(r.needed_bytes));
      root.set("available_bytes", Node::integer(r.available_bytes));
    }
    root.set("memory_bytes", memory_node(r.memory));
    root.set("passes", passes_node(r.passes));
    return root;
  }
  const sim::TickScale scale = tick_scale(config.run.tick_s);
  const double simulated_s = scale.seconds(r.end), tick = config.run.tick_s;
  Node requests = Node::object();
  requests.set("completed", Node::integer(std::ssize(r.requests)));
  root.set("simulated_s", Node::real(simulated_s));
  root.set("requests", std::move(requests));
  root.set("latency_s", distribution_figures(r.latency, tick, kQuantiles));
  root.set("stall_s", distribution_figures(r.stall, tick, kQuantiles));
  root.set("steady_s", distribution_figures(r.steady, tick, kQuantiles));
  Node throughput = Node::object();
  throughput.set("requests_per_s", ratio(static_cast<double>(std::ssize(r.requests)), simulated_s));
  throughput.set("samples_per_s", ratio(r.samples, simulated_s));
  root.set("throughput", std::move(throughput));
  root.set("compile_s", compile_node(r));
  root.set("launches", Node::integer(r.launches.launches));
  root.set("kernels", Node::integer(r.launches.kernels));
  root.set("tklqt_s", Node::real(r.launches.tklqt_s));
  root.set("host_s", Node::real(r.host_s));
  root.set("device_busy_s", Node::real(r.launches.gpu_busy_s));
  root.set("execution_s", Node::real(r.launches.il_s));
  root.set("decode_s", Node::real(r.decode_s));
  root.set("transfer_s", Node::real(r.transfer_s));
  root.set("padding", ratio(r.flops, r.asked_flops));
  root.set("bytes_moved", traffic_node(r));
  root.set("max_batch", r.max_batch > 0 ? Node::integer(r.max_batch) : Node{});
  Node utilisation = Node::object();
  utilisation.set("busy", ratio(r.launches.gpu_busy_s, simulated_s));
  root.set("utilisation", std::move(utilisation));
  root.set("memory_bytes", memory_node(r.memory));
  root.set("energy_j", energy_node(r.energy, r.samples));
  root.set("device", device_node(*config.device));
  root.set("graph", graph_node(config, r));
  root.set("passes", passes_node(r.passes));
  root.set("events", Node::integer(static_cast<std::int64_t>(r.events)));
  return root;
}

}  // namespace orrery::experiments::graph
