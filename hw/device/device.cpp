#include "hw/device/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "hw/base/real.hpp"

namespace orrery::hw {
namespace {

using sim::Node;

/// What the kinds of parts give a device, one function a kind.

/// What GPUs and NPUs state alike.
template <class P>
void take_accelerator(const P& part, Device& device) {
  device.memory_bytes = part.memory_bytes;
  device.memory_bandwidth = part.memory_bandwidth;
  device.cache = {part.l2_bytes, part.l2_bandwidth};
  device.link = part.link;
  device.power = part.power;
  device.clock_hz = part.clock_hz;
  device.clocks = {part.dvfs.lowest_clock_hz, part.clock_hz};
}

void take(const GpuParams& gpu, Device& device) {
  take_accelerator(gpu, device);
  device.cores = gpu.sms;
  device.scratch_bytes = gpu.l1_bytes * gpu.sms;
  // The launch floor of a stream holds the call's latency, which a modelled host has; a graph's node is the kernel.
  device.launch = {.in_cost_s = gpu.launch_s(), .stream_s = gpu.launch_graph_s, .node_s = gpu.launch_graph_s};
}

void take(const NpuParams& npu, Device& device) {
  take_accelerator(npu, device);
  device.cores = npu.cores;
  device.scratch_bytes = npu.scratch.unified * npu.cores;
  device.launch = {.in_cost_s = npu.launch_s,
                   .access_s = npu.memory_latency_s + npu.dma.fixed_s,
                   .stream_s = npu.launch_s,
                   .node_s = npu.launch_s};
}

/// One clock, and no links: what joins sockets, boards and DIMMs is no property of these parts.
void take_fixed(double clock_hz, double idle_w, double busy_w, Device& device) {
  device.clock_hz = clock_hz;
  device.clocks = {clock_hz, clock_hz};
  device.link.peers = 1;
  device.power.idle_w = idle_w;
  device.power.tdp_w = busy_w;
}

void take(const CpuParams& cpu, Device& device) {
  take_fixed(cpu.vector_clock_hz(), cpu.power.idle_w, cpu.power.tdp_w, device);
  device.memory_bytes = cpu.memory_bytes;
  device.memory_bandwidth = cpu.memory_bandwidth;
  device.power.active_w = static_cast<double>(cpu.cores) * cpu.power.core_active_w;
  device.power.fp32_flop_j = cpu.power.flop_j;
  device.power.memory_byte_j = cpu.power.memory_byte_j;
  device.cores = cpu.cores;
  device.scratch_bytes = cpu.l2_bytes * cpu.cores;
}

void take(const FpgaParams& fpga, Device& device) {
  take_fixed(fpga.clock_hz, fpga.idle_w, fpga.tdp_w, device);
  device.memory_bytes = fpga.memory_bytes;
  device.memory_bandwidth = fpga.memory_bandwidth;
  device.power.active_w = fpga.tdp_w - fpga.idle_w;
  device.scratch_bytes =
      static_cast<std::int64_t>((1 - fpga.shell_share) * (d(fpga.bram18) * kBram18Bytes + d(fpga.uram) * kUramBytes));
}

void take(const UpmemParams& upmem, Device& device) {
  const double dimms = d(upmem.dimms);
  take_fixed(upmem.clock_hz, dimms * upmem.dimm_idle_w, dimms * upmem.dimm_power_w, device);
  device.memory_bytes = upmem.dpus() * upmem.mram_bytes;
  device.memory_bandwidth = d(upmem.dpus()) * upmem.clock_hz / upmem.dma_read.cycles_per_byte;
  device.power.active_w = device.power.tdp_w - device.power.idle_w;
  device.beside_host = true;
  device.cores = upmem.dpus();
  device.scratch_bytes = upmem.dpus() * upmem.wram_bytes;
  device.launch = {.in_cost_s = upmem.launch_s, .stream_s = upmem.launch_s, .node_s = upmem.launch_s};
}

void take(const BankPimParams& pim, Device& device) {
  take_fixed(pim.dram.clock_hz, 0, 0, device);
  device.memory_bytes = static_cast<std::int64_t>(d(pim.devices) * pim.dram.capacity_bytes());
  device.memory_bandwidth = pim.internal_bandwidth();
  device.beside_host = true;
  device.cores = static_cast<std::int64_t>(pim.units());
  device.launch = {.in_cost_s = pim.launch_s, .stream_s = pim.launch_s, .node_s = pim.launch_s};
}

void take(const AttentionPimParams& pim, Device& device) {
  take_fixed(pim.dram.clock_hz, 0, 0, device);
  device.memory_bytes = static_cast<std::int64_t>(d(pim.stacks) * pim.dram.capacity_bytes());
  device.memory_bandwidth = d(pim.stacks) * pim.dram.peak_bandwidth() * effective_scale(pim);
  device.beside_host = true;
  device.cores = pim.stacks * pim.dram.lanes() * units_per_lane(pim);
  device.launch = {.in_cost_s = pim.launch_s, .stream_s = pim.launch_s, .node_s = pim.launch_s};
}

struct PeakOf {
  DType dtype;
  double operator()(const GpuParams& gpu) const { return matrix_peak(gpu, dtype); }
  double operator()(const NpuParams& npu) const { return matrix_peak(npu, dtype); }
  double operator()(const CpuParams& cpu) const { return cpu_peak(cpu, dtype); }
  double operator()(const FpgaParams& fpga) const {
    return 2 * macs_per_cycle(fpga, fpga_format(dtype)) * fpga.clock_hz;
  }
  double operator()(const UpmemParams& upmem) const {  // emulated but for 8 bits: instructions of a product and a sum
    const double instructions = dtype == DType::int8 ? 1 + upmem.instructions.add
                                                     : upmem.instructions.multiply_float + upmem.instructions.add_float;
    return 2 * d(upmem.dpus()) * upmem.clock_hz / instructions;
  }
  double operator()(const BankPimParams& pim) const { return pim.peak_flops(); }
  double operator()(const AttentionPimParams& pim) const {  // a multiply-add an element that comes from the banks
    return 2 * d(pim.stacks) * pim.dram.peak_bandwidth() * bandwidth_scale(pim) / d(bytes_of(dtype));
  }
};

struct VectorPeak {
  double operator()(const GpuParams& gpu) const { return gpu.peak.fp32; }
  double operator()(const NpuParams& npu) const {
    return d(npu.cores) * d(npu.vector.bytes_per_cycle) / 4 * npu.clock_hz;
  }
  template <class P>
  double operator()(const P& part) const {
    return PeakOf{DType::fp32}(part);
  }
};

struct FlopEnergy {
  DType dtype;
  double operator()(const GpuParams& gpu) const { return matrix_flop_energy(gpu, dtype); }
  double operator()(const NpuParams& npu) const { return matrix_flop_energy(npu, dtype); }
  double operator()(const CpuParams& cpu) const { return cpu.power.flop_j * d(bytes_of(dtype)) / 4; }
  double operator()(const BankPimParams& pim) const { return pim.energy.mac_j / 2; }
  double operator()(const AttentionPimParams& pim) const { return pim.energy.mac_j / 2; }
  template <class P>
  double operator()(const P&) const {
    return 0;
  }
};

struct UnitsFor {
  DType dtype;
  bool operator()(const GpuParams& gpu) const { return has_matrix_units(gpu, dtype); }
  bool operator()(const NpuParams& npu) const {
    const MatrixRates& rates = npu.matrix.rates;
    switch (dtype) {
      case DType::fp32:
        return rates.fp32 > 0;
      case DType::fp16:
      case DType::bf16:
        return rates.fp16 > 0 || rates.bf16 > 0;
      case DType::fp8:
        return rates.fp8 > 0;
      case DType::int8:
        return rates.int8 > 0;
    }
    return false;
  }
  bool operator()(const CpuParams& cpu) const {
    return dtype == DType::fp32 || core_rate(cpu, dtype) > core_rate(cpu, DType::fp32);
  }
  bool operator()(const FpgaParams&) const { return dtype != DType::fp8; }
  bool operator()(const UpmemParams&) const { return dtype == DType::int8; }
  bool operator()(const BankPimParams&) const { return dtype == DType::fp16 || dtype == DType::bf16; }
  bool operator()(const AttentionPimParams&) const { return dtype == DType::fp16 || dtype == DType::bf16; }
};

/// Whether `changes` say anything about a member, or a member of it.
bool changed(const Node& changes, std::string_view name) {
  return changes.is_object() && changes.find(std::string(name)) != nullptr;
}

/// Rates of a part whose clock was changed from `before`, where they were not changed themselves.
void follow_clock(GpuParams& gpu, const GpuParams& before, const Node& changes) {
  const double share = gpu.clock_hz / before.clock_hz;
  const Node* peak = changes.find("peak");
  const auto follow = [&](const char* name, double& rate) {
    if (peak == nullptr || !changed(*peak, name)) rate *= share;
  };
  follow("fp32", gpu.peak.fp32);
  follow("fp16", gpu.peak.fp16);
  follow("bf16", gpu.peak.bf16);
  follow("fp8", gpu.peak.fp8);
  follow("int8", gpu.peak.int8);
  follow("fp4", gpu.peak.fp4);
  if (!changed(changes, "l2_bandwidth")) gpu.l2_bandwidth *= share;
  const Node* gemm = changes.find("gemm");  // its power at the peak goes with the peak
  if (peak == nullptr && (gemm == nullptr || !changed(*gemm, "peak_power"))) gpu.gemm.peak_power *= share;
}
void follow_clock(NpuParams& npu, const NpuParams& before, const Node& changes) {
  if (!changed(changes, "l2_bandwidth")) npu.l2_bandwidth *= npu.clock_hz / before.clock_hz;
}

/// Reads the entry if it is one of `P`.
template <class P>
bool parse_as(const std::string& kind, const Node& entry, const Node& changes, sim::Faults& faults,
              std::optional<CatalogEntry<Part>>& out) {
  if (kind != P::kKind) return false;
  Node whole = entry;
  if (changes.is_object()) sim::merge_over(whole, changes);
  const std::size_t before = faults.size();
  CatalogEntry<P> part = parse_part<P>(whole, faults);
  if (faults.size() != before) return true;
  if constexpr (requires(P p) { follow_clock(p, p, changes); }) {
    if (changed(changes, "clock")) {
      sim::Faults none;  // an entry that is whole only with the changes states no rates at a clock of its own
      const P before_change = parse_part<P>(entry, none).part;
      if (none.empty()) follow_clock(part.part, before_change, changes);
    }
  }
  CatalogEntry<Part> any;
  static_cast<CatalogNotes&>(any) = std::move(part);
  any.part = std::move(part.part);
  out = std::move(any);
  return true;
}

template <class... P>
std::optional<CatalogEntry<Part>> parse_one_of(std::variant<P...>* /*kinds*/, const Node& entry, const Node& changes,
                                               sim::Faults& faults) {
  const Node* kind = entry.find("kind");
  const std::string name = kind != nullptr && kind->is_string() ? kind->as_string() : "";
  std::optional<CatalogEntry<Part>> out;
  if ((parse_as<P>(name, entry, changes, faults, out) || ...)) return out;
  const std::vector<std::string_view> kinds{P::kKind...};
  faults.add(kind == nullptr ? entry.origin() : kind->origin(),
             fmt::format("expected a part that computes ({}), got {}", fmt::join(kinds, ", "),
                         name.empty() ? "none" : "one of kind '" + name + "'"));
  return std::nullopt;
}

}  // namespace

Device make_device(std::string name, const Part& part, const CostModelFactory& make_cost) {
  Device device;
  device.name = std::move(name);
  device.part = part;
  std::visit([&](const auto& params) { take(params, device); }, part);
  device.make_cost = make_cost;
  device.model = make_cost(device);
  if (device.model == nullptr) throw std::logic_error("a cost model that has no answer for " + device.name);
  device.link.correction = device.model->collectives();
  return device;
}

std::optional<std::string> Device::alone_obstacle() const {
  if (!beside_host) return std::nullopt;
  return fmt::format("{} computes what a host sends it and is no machine by itself", name);
}

std::optional<std::string> Device::rank_obstacle(std::int64_t ranks) const {
  if (ranks == 1 || link.bandwidth > 0) return std::nullopt;
  return fmt::format("{} has no link over which {} of them could share a layer", name, ranks);
}

double Device::peak(DType dtype) const {
  return std::visit(PeakOf{dtype}, part);
}
double Device::vector_peak() const {
  return std::visit(VectorPeak{}, part);
}
double Device::flop_energy(DType dtype) const {
  return std::visit(FlopEnergy{dtype}, part);
}
bool Device::has_units_for(DType dtype) const {
  return std::visit(UnitsFor{dtype}, part);
}

const DieParams* Device::die() const {
  const DieParams* die = nullptr;
  if (const auto* gpu = as<GpuParams>()) die = &gpu->die;
  if (const auto* npu = as<NpuParams>()) die = &npu->die;
  return die != nullptr && !die->process.empty() ? die : nullptr;
}

std::optional<AreaEstimate> Device::area(const ProcessParams& process) const {
  if (die() == nullptr) return std::nullopt;
  if (const auto* gpu = as<GpuParams>()) return estimate_area(*gpu, process);
  return estimate_area(*as<NpuParams>(), process);
}

Device at_clock(const Device& device, double clock_hz) {
  if (const auto* gpu = device.as<GpuParams>())
    return make_device(device.name, at_clock(*gpu, clock_hz), device.make_cost);
  if (const auto* npu = device.as<NpuParams>())
    return make_device(device.name, at_clock(*npu, clock_hz), device.make_cost);
  if (clock_hz == device.clock_hz) return device;
  throw std::invalid_argument(fmt::format("{} runs at one clock", device.name));
}

Device with_launch(const Device& device, double seconds) {
  const auto* gpu = device.as<GpuParams>();
  if (gpu == nullptr) throw std::invalid_argument(fmt::format("{} is no GPU", device.name));
  GpuParams changed = *gpu;
  changed.launch_mode = LaunchMode::stream;
  changed.launch_stream_s = seconds;
  return make_device(device.name, changed, device.make_cost);
}

Device with_attention_memory(const Device& device, const AttentionPimParams& memory) {
  Device together = device;
  together.model = make_attention_pim_cost(memory, device.make_cost(device));
  if (!memory.shared_memory) together.power.idle_w += d(memory.stacks) * memory.dram.energy.background_w;
  return together;
}

namespace {

/// Adds fields to those of another kind: of one name once, and what is nested in it likewise.
void merge_fields(std::vector<sim::FieldInfo>& all, const std::vector<sim::FieldInfo>& more) {
  for (const sim::FieldInfo& field : more) {
    const auto known = std::ranges::find(all, field.name, &sim::FieldInfo::name);
    if (known != all.end()) {
      merge_fields(known->nested, field.nested);
      continue;
    }
    all.push_back(field);
    all.back().required = false;
    all.back().nested.clear();
    merge_fields(all.back().nested, field.nested);
  }
}

template <class... P>
std::vector<sim::FieldInfo> fields_of(std::variant<P...>* /*kinds*/) {
  std::vector<sim::FieldInfo> all;
  (merge_fields(all, sim::describe_params<P>()), ...);
  return all;
}

}  // namespace

std::vector<sim::FieldInfo> computing_part_fields() {
  return fields_of(static_cast<Part*>(nullptr));
}

std::optional<CatalogEntry<Part>> parse_computing_part(const Node& entry, const Node& changes, sim::Faults& faults) {
  return parse_one_of(static_cast<Part*>(nullptr), entry, changes, faults);
}

}  // namespace orrery::hw
