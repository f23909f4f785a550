// Machines and models: what a part is and what kernels cost on it; what a language model is made of.
#include <fmt/format.h>

#include "experiments/base/catalog.hpp"
#include "experiments/base/experiment.hpp"
#include "experiments/systems/graph/launches.hpp"
#include "hw/coupling/platform.hpp"
#include "hw/npu/npu.hpp"
#include "hw/parts/catalog.hpp"
#include "models/transformer/describe.hpp"
#include "models/transformer/transformer.hpp"
#include "tools/python/bindings/graph.hpp"

namespace orrery::python {
namespace {

namespace graphs = experiments::graph;
using sim::Node;

constexpr std::array kFormats{hw::DType::fp32, hw::DType::fp16, hw::DType::bf16, hw::DType::fp8, hw::DType::int8};

void add_gpu(const hw::GpuParams& gpu, py::dict& facts) {
  py::dict peak;
  peak["fp32"] = gpu.peak.fp32;
  for (const auto& [name, value] : {std::pair{"fp16", gpu.peak.fp16},
                                    {"bf16", gpu.peak.bf16},
                                    {"fp8", gpu.peak.fp8},
                                    {"int8", gpu.peak.int8},
                                    {"fp4", gpu.peak.fp4}})
    if (value > 0) peak[name] = value;
  facts["peak_flops"] = peak;
  facts["memory_bytes"] = gpu.memory_bytes;
  facts["memory_bandwidth_bytes_per_s"] = gpu.memory_bandwidth;
  facts["cores"] = gpu.sms;
  facts["clock_hz"] = gpu.clock_hz;
  facts["l2_bytes"] = gpu.l2_bytes;
  facts["l2_bandwidth_bytes_per_s"] = gpu.l2_bandwidth;
  facts["idle_w"] = gpu.power.idle_w;
  facts["tdp_w"] = gpu.power.tdp_w;
  facts["launch_s"] = gpu.launch_s();
  facts["link_bandwidth_bytes_per_s"] = gpu.link.bandwidth;
}

void add_npu(const hw::NpuParams& npu, py::dict& facts) {
  py::dict peak;
  for (const hw::DType dtype : kFormats)
    if (const double value = hw::matrix_peak(npu, dtype); value > 0) peak[to_string(dtype).data()] = value;
  facts["peak_flops"] = peak;
  facts["memory_bytes"] = npu.memory_bytes;
  facts["memory_bandwidth_bytes_per_s"] = npu.memory_bandwidth;
  facts["cores"] = npu.cores;
  facts["clock_hz"] = npu.clock_hz;
  facts["l2_bytes"] = npu.l2_bytes;
  facts["idle_w"] = npu.power.idle_w;
  facts["launch_s"] = npu.launch_s;
}

py::dict notes_dict(const hw::CatalogNotes::Notes& notes) {
  py::dict all;
  for (const auto& [field, text] : notes) all[py::str(field)] = text;
  return all;
}

std::string_view shape_name(const hw::Kernel& kernel) {
  constexpr std::array<std::string_view, 9> kNames{
      "gemm", "attention_prefill", "attention_decode", "stream", "grouped_gemm", "sparse", "fft", "conv", "fused"};
  return kNames[kernel.shape.index()];
}

hw::DType format_of(const std::string& name) {
  if (const auto dtype = sim::value_named<hw::DType>(name)) return *dtype;
  std::vector<std::string> known;
  for (const hw::DType dtype : kFormats) known.emplace_back(to_string(dtype));
  sim::throw_fault({"dtype", ""}, fmt::format("unknown number format '{}'", name), sim::name_hint(name, known));
}

}  // namespace

PyMachine::PyMachine(const experiments::Systems& systems, const std::string& part, const std::string& changes,
                     const std::string& cost) {
  sim::Faults faults;
  const std::filesystem::path file = experiments::part_file(part, {"", "/part"}, faults);
  faults.throw_if_any();
  file_ = file.string();
  entry_ = sim::read_config(file);
  sim::merge_over(entry_, sim::parse_json(changes, "override"));
  part_ = hw::parse_any_part(entry_, faults);
  faults.throw_if_any();
  const bool platform = part_.kind == hw::PlatformParams::kKind;
  if (!platform && part_.kind != hw::GpuParams::kKind && part_.kind != hw::NpuParams::kKind) return;
  Node choice = Node::object(), machine = Node::object();
  choice.set("part", Node::string(file_));
  choice.set("override", sim::parse_json(changes, "override"));
  machine.set(platform ? "platform" : "device", std::move(choice));
  machine.set("cost", sim::parse_json(cost, "cost"));
  const auto params = sim::parse_params<graphs::MachineParams>(machine, *systems.registries(), faults);
  faults.throw_if_any();
  std::vector<std::filesystem::path> inputs;
  device_ = graphs::read_device(machine, params, 1e-12, inputs, faults);
  faults.throw_if_any();
}

const graphs::GraphDevice& PyMachine::device() const {
  if (device_ == nullptr)
    sim::throw_fault(
        {part_.name, ""},
        fmt::format("expected a part that runs kernels (gpu, npu or platform), got one of kind {}", part_.kind));
  return *device_;
}

py::dict PyMachine::facts() const {
  py::dict all;
  all["name"] = part_.name;
  all["kind"] = part_.kind;
  all["doc"] = part_.doc;
  all["file"] = file_;
  all["fields"] = to_python(part_.fields);
  all["sources"] = notes_dict(part_.sources);
  all["assumptions"] = notes_dict(part_.assumptions);
  all["tables"] = notes_dict(part_.tables);
  sim::Faults faults;
  py::dict figures;
  if (part_.kind == hw::GpuParams::kKind) add_gpu(hw::parse_part<hw::GpuParams>(entry_, faults).part, figures);
  if (part_.kind == hw::NpuParams::kKind) add_npu(hw::parse_part<hw::NpuParams>(entry_, faults).part, figures);
  if (part_.kind == hw::PlatformParams::kKind)
    add_gpu(hw::parse_platform(entry_, experiments::home_folder() / "hw/catalog", faults).gpu, figures);
  faults.throw_if_any();
  all["figures"] = figures;
  return all;
}

py::dict PyMachine::cost(const hw::Kernel& kernel) const {
  const hw::Work work = hw::work_of(kernel);
  const hw::Cost cost = device().device.cost(kernel);
  py::dict told;
  told["flops"] = work.flops;
  told["bytes"] = cost.dram_bytes;
  told["time_s"] = cost.time_s;
  told["bound_by"] = std::string(to_string(cost.bound));
  told["energy_j"] = cost.compute_energy_j + cost.memory_energy_j;
  return told;
}

py::dict PyMachine::kernels(const PyGraph& g) const {
  const graphs::GraphDevice& device = this->device();
  const models::OpGraph& graph = *g.graph;
  const models::GraphLaunches launches = models::lower(graph, g.sizes);
  const graphs::PricedGraph priced = graphs::price(graph, g.sizes, device);
  Rows rows;
  std::size_t next = 0;
  const auto transfers_before = [&](std::size_t kernel) {
    for (; next < launches.transfers.size() && launches.transfers[next].after <= kernel; ++next) {
      const models::GraphTransfer& transfer = launches.transfers[next];
      rows.text("name", graph.op(transfer.op).name);
      rows.text("class", to_string(graph.op(transfer.op).op_class));
      rows.text("kernel", to_string(transfer.kind));
      rows.text("dtype", "");
      rows.number("flops", 0);
      rows.number("bytes", static_cast<double>(transfer.bytes));
      rows.number("time_s", device.transfer_s(transfer));
      rows.text("bound_by", to_string(hw::Bound::network));
      rows.number("energy_j", 0);
    }
  };
  for (std::size_t i = 0; i < priced.kernels.size(); ++i) {
    transfers_before(i);
    const hw::Kernel& kernel = launches.kernels[i].kernel;
    const hw::Cost& cost = priced.kernels[i].cost;
    rows.text("name", graph.op(priced.kernels[i].op).name);
    rows.text("class", to_string(kernel.op));
    rows.text("kernel", shape_name(kernel));
    rows.text("dtype", to_string(kernel.dtype));
    rows.number("flops", hw::work_of(kernel).flops);
    rows.number("bytes", cost.dram_bytes);
    rows.number("time_s", cost.time_s);
    rows.text("bound_by", to_string(cost.bound));
    rows.number("energy_j", cost.compute_energy_j + cost.memory_energy_j);
  }
  transfers_before(priced.kernels.size());
  return rows.take();
}

namespace {

py::dict gemm(const PyMachine& machine, std::int64_t m, std::int64_t n, std::int64_t k, const std::string& dtype,
              std::int64_t batch) {
  for (const auto& [name, value] : {std::pair{"m", m}, {"n", n}, {"k", k}, {"batch", batch}})
    if (value < 1) sim::throw_fault({"gemm", fmt::format("/{}", name)}, fmt::format("expected >= 1, got {}", value));
  return machine.cost({hw::OpClass::ffn_up, format_of(dtype), hw::Gemm{m, n, k, batch}});
}

py::dict model_facts(const std::string& reference, const std::string& dtype, std::int64_t tp) {
  const models::ModelConfig config = models::load_model(reference, experiments::home_folder() / "models/catalog");
  const hw::DType format = dtype.empty() ? config.dtype.value_or(hw::DType::fp16) : format_of(dtype);
  const models::Transformer t = models::build_transformer(config, format, tp, {"tensor_parallel", ""});
  py::dict all;
  all["name"] = config.name;
  all["architecture"] = config.architecture;
  all["source"] = config.source;
  all["dtype"] = std::string(to_string(format));
  all["layers"] = config.layers;
  all["hidden"] = config.hidden_size;
  all["heads"] = config.heads;
  all["kv_heads"] = config.kv_heads;
  all["head_dim"] = config.head_dim;
  all["intermediate"] = config.intermediate_size;
  all["vocabulary"] = config.vocab_size;
  all["context"] = config.max_position_embeddings;
  all["experts"] = config.experts.count;
  all["experts_per_token"] = config.experts.per_token;
  all["parameters"] = models::parameters(config);
  all["active_parameters"] = models::active_parameters(config);
  all["weight_bytes"] = models::weight_bytes(t);
  all["kv_bytes_per_token"] = models::kv_bytes_per_token(t);
  all["text"] = models::describe_model(t);
  return all;
}

}  // namespace

void bind_machine(py::module_& module, const SharedKnown& known) {
  py::class_<PyMachine>(module, "Machine")
      .def(py::init([known](const std::string& part, const std::string& changes, const std::string& cost) {
             return std::make_unique<PyMachine>(known->systems, part, changes, cost);
           }),
           py::arg("part"), py::arg("changes"), py::arg("cost"))
      .def("facts", &PyMachine::facts)
      .def("kernels", &PyMachine::kernels, py::arg("graph"))
      .def("gemm", &gemm, py::arg("m"), py::arg("n"), py::arg("k"), py::arg("dtype"), py::arg("batch"));
  module.def("model_facts", &model_facts, py::arg("reference"), py::arg("dtype"), py::arg("tensor_parallel"));
}

}  // namespace orrery::python
