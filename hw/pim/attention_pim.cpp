#include "hw/pim/attention_pim.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "hw/base/cost_model.hpp"
#include "hw/base/real.hpp"
#include "hw/memory/dram_rate.hpp"

namespace orrery::hw {
namespace {

/// Energy of a bit from its cell to the unit, J; activation counted per bit of a row that is used whole.
double unit_bit_j(const AttentionPimParams& pim) {
  const DramEnergy& e = pim.dram.energy;
  double path = 0;
  if (pim.level != AttentionPimLevel::bank) path += e.column_bit_j;
  if (pim.level == AttentionPimLevel::buffer) path += e.group_bit_j + e.tsv_bit_j;
  return e.activate_bit_j + e.cell_bit_j + path;
}

/// Energy of one access of a unit, J: bits to the unit, and a multiply-add for each two-byte element.
double access_j(const AttentionPimParams& pim) {
  const double bytes = d(pim.dram.access_bytes());
  return 8 * bytes * unit_bit_j(pim) + bytes / 2 * pim.energy.mac_j + bytes * pim.energy.register_byte_j;
}

std::int64_t unlimited_clocks(const AttentionPimParams& pim) {
  return pim.level == AttentionPimLevel::buffer ? pim.dram.timing.ccd_s : pim.dram.timing.ccd_l;
}

/// Clocks that a change of rows adds to a unit's stream; 0 where other banks' rows are open meanwhile.
double row_gap_clocks(const AttentionPimParams& pim) {
  if (pim.level != AttentionPimLevel::bank) return 0;
  const DramTiming& t = pim.dram.timing;
  const double used = d(pim.dram.accesses_per_row() - 1) * d(access_clocks(pim));
  return std::max(d(t.rtp), d(t.ras - t.rcd_rd) - used) + d(t.rp + t.rcd_rd - access_clocks(pim));
}

}  // namespace

std::int64_t units_per_lane(const AttentionPimParams& pim) {
  switch (pim.level) {
    case AttentionPimLevel::bank:
      return pim.dram.banks_per_lane();
    case AttentionPimLevel::bank_group:
      return pim.dram.organisation.ranks * pim.dram.organisation.bank_groups;
    case AttentionPimLevel::buffer:
      return 1;
  }
  return 1;
}

double streaming_power_w(const AttentionPimParams& pim, std::int64_t clocks) {
  const double accesses_per_s = d(units_per_lane(pim)) * d(pim.dram.lanes()) * pim.dram.clock_hz / d(clocks);
  return accesses_per_s * access_j(pim);
}

double power_budget_w(const AttentionPimParams& pim) {
  if (pim.power_budget_w > 0) return pim.power_budget_w;
  const DramParams& m = pim.dram;
  const double rows_per_s = d(m.lanes()) * d(m.organisation.ranks) * 4 * m.clock_hz / d(m.timing.faw);
  // No more rows than reads: a row is opened to be read.
  const double reads_per_s = m.peak_bandwidth() / d(m.access_bytes());
  return 8 * m.peak_bandwidth() * m.access_bit_j() + std::min(rows_per_s, reads_per_s) * m.row_j();
}

std::int64_t access_clocks(const AttentionPimParams& pim) {
  const std::int64_t clocks = unlimited_clocks(pim);
  if (!pim.power_limited) return clocks;
  if (pim.limited_clocks > 0) return std::max(clocks, pim.limited_clocks);
  const double least = streaming_power_w(pim, 1) / power_budget_w(pim);
  return std::max(clocks, static_cast<std::int64_t>(std::ceil(least - 1e-9)));
}

double bandwidth_scale(const AttentionPimParams& pim) {
  return d(units_per_lane(pim)) * d(pim.dram.timing.ccd_s) / d(access_clocks(pim));
}

double row_period_clocks(const AttentionPimParams& pim) {
  return d(pim.dram.accesses_per_row()) * d(access_clocks(pim)) + row_gap_clocks(pim);
}

double effective_scale(const AttentionPimParams& pim) {
  const double used = d(pim.dram.accesses_per_row()) * d(access_clocks(pim));
  const double refresh = pim.level == AttentionPimLevel::bank ? refresh_share_idle(pim.dram) : refresh_share(pim.dram);
  return bandwidth_scale(pim) * used / row_period_clocks(pim) * (1 - refresh);
}

AttentionPimTime attention_time(const AttentionPimParams& pim, const AttentionDecode& a, DType dtype) {
  if (a.sequences <= 0 || a.context_tokens <= 0 || a.heads <= 0 || a.kv_heads <= 0 || a.head_dim <= 0) return {};
  const DramParams& m = pim.dram;
  const double element = d(bytes_of(dtype)), access = d(m.access_bytes());
  const double group = std::max(1.0, d(a.heads) / d(a.kv_heads));
  const double passes = std::ceil(group / d(pim.queries_per_read) - 1e-9);
  const double context = d(a.context_tokens) / d(a.sequences);
  const double lanes = d(pim.lanes_per_item > 0 ? std::min(pim.lanes_per_item, m.lanes()) : m.lanes());
  const double places = d(pim.stacks) * std::floor(d(m.lanes()) / lanes);
  const double items = std::ceil(d(a.sequences) * d(a.kv_heads) / places);  // key heads at the busiest place

  // Keys of an item spread over the units, and so do values, which latents read a second time from the keys.
  const double per_token = std::ceil(d(a.head_dim) * element / access);
  const double units = d(units_per_lane(pim)) * lanes;
  double stream = 0;
  for (const std::int64_t elements : {a.head_dim, a.values()}) {
    const double accesses = std::ceil(context * std::ceil(d(elements) * element / access) / units);
    const double rows = std::ceil(accesses / d(m.accesses_per_row()));
    stream += passes * (accesses * d(access_clocks(pim)) + rows * row_gap_clocks(pim));
  }
  // Queries go to every pseudo-channel; scores leave it, probabilities return to it, each lane its share.
  const double query = group * per_token * d(m.timing.ccd_s);
  const double scores = 2 * group * std::ceil(context * element / lanes / access) * d(m.timing.ccd_s);
  const double latency = 2 * d(m.timing.rcd_rd + m.timing.rl + m.burst_clocks());
  const double product = (stream + query + scores + latency) / (1 - refresh_share(m)) / m.clock_hz;
  const double softmax_rate =
      (pim.softmax_bandwidth > 0 ? pim.softmax_bandwidth : m.peak_bandwidth()) * lanes / d(m.lanes());
  const double softmax = group * context * element / softmax_rate;

  AttentionPimTime t;
  t.products_s = items * product;
  t.softmax_s = items * softmax;
  t.read_bytes = passes * d(a.context_tokens) * d(a.kv_heads) * d(a.head_dim + a.values()) * element;
  if (!pim.shared_memory) {
    // Queries, new keys and values there; outputs back.
    const double there =
        d(a.sequences) * (d(a.heads) * d(a.head_dim) + d(a.kv_heads) * d(cached_elements(a))) * element;
    const double back = d(a.sequences) * d(a.heads) * d(a.values()) * element;
    t.link_s = 2 * pim.link_latency_s + (there + back) / pim.link_bandwidth;
  }
  t.time_s = pim.launch_s + t.link_s + items * std::max(product, softmax) + std::min(product, softmax);
  return t;
}

Cost attention_cost(const AttentionPimParams& pim, const AttentionDecode& shape, DType dtype) {
  const AttentionPimTime t = attention_time(pim, shape, dtype);
  if (t.time_s == 0) return {};
  const Work work = work_of({OpClass::attention_decode, dtype, shape});
  const double scores = 2 * d(shape.context_tokens) * d(shape.heads) * d(bytes_of(dtype));
  Cost cost;
  cost.time_s = t.time_s;
  cost.flops = work.flops;
  cost.dram_bytes = std::max(t.read_bytes, work.read_bytes + work.write_bytes);
  cost.compute_energy_j =
      work.flops / 2 * pim.energy.mac_j + d(pim.stacks) * pim.energy.standby_w * (t.time_s - t.link_s);
  const double cached = d(shape.context_tokens) * d(shape.kv_heads) * d(cached_elements(shape)) * d(bytes_of(dtype));
  const double outside = 8 * (work.read_bytes + work.write_bytes - cached);
  cost.memory_energy_j = 8 * t.read_bytes * unit_bit_j(pim) + t.read_bytes * pim.energy.register_byte_j +
                         8 * scores * (pim.dram.energy.group_bit_j + pim.dram.energy.tsv_bit_j) +
                         outside * pim.dram.access_bit_j();
  cost.bound = pim.launch_s + t.link_s > 0.5 * t.time_s ? Bound::launch : Bound::memory;
  cost.beside = true;
  return cost;
}

void AttentionPimParams::check(const AttentionPimParams& pim, const sim::Node& fields, sim::Faults& faults) {
  DramParams::check(pim.dram, *fields.find("dram"), faults);
  const auto add = [&](const char* place, const char* message) { faults.add(fields.origin_at(place), message); };
  if (!pim.shared_memory && pim.link_bandwidth <= 0)
    add("link_bandwidth", "expected > 0 where memory is not shared, got none");
  if (pim.lanes_per_item > pim.dram.lanes()) add("lanes_per_item", "expected no more than the stack's pseudo-channels");
  if (pim.dual_row_buffer && pim.level != AttentionPimLevel::bank)
    add("dual_row_buffer", "expected false unless level is \"bank\": only banks have row buffers");
}

namespace {

class AttentionPimCost final : public CostModel {
 public:
  AttentionPimCost(const AttentionPimParams& pim, std::unique_ptr<CostModel> host)
      : pim_(pim), host_(std::move(host)) {}

  Cost cost(const Kernel& kernel) const override {
    const auto* decode = std::get_if<AttentionDecode>(&kernel.shape);
    if (decode == nullptr) return on_host(kernel);
    const Cost here = attention_cost(pim_, *decode, kernel.dtype);
    if (here.time_s == 0) return on_host(kernel);
    if (pim_.offload == PimOffload::eligible || host_ == nullptr) return here;
    Cost host = host_->cost(kernel);
    if (!pim_.shared_memory) {  // the keys are in the stacks: whoever attends elsewhere reads them over the link
      const double cached = d(decode->context_tokens) * d(decode->kv_heads) * d(cached_elements(*decode));
      host.time_s =
          std::max(host.time_s, pim_.link_latency_s + cached * d(bytes_of(kernel.dtype)) / pim_.link_bandwidth);
    }
    return here.time_s < host.time_s ? here : host;
  }
  std::optional<std::string> obstacle(const Kernel& kernel) const override {
    if (host_ != nullptr || std::holds_alternative<AttentionDecode>(kernel.shape) || is_empty(work_of(kernel)))
      return std::nullopt;
    return fmt::format("attention in memory runs attention of decodes, no {}", to_string(kernel.op));
  }

 private:
  Cost on_host(const Kernel& kernel) const {
    if (const auto why = obstacle(kernel)) throw std::invalid_argument(*why);
    return host_ != nullptr ? host_->cost(kernel) : Cost{};
  }

  AttentionPimParams pim_;
  std::unique_ptr<CostModel> host_;
};

}  // namespace

std::unique_ptr<CostModel> make_attention_pim_cost(const AttentionPimParams& pim, std::unique_ptr<CostModel> host) {
  return std::make_unique<AttentionPimCost>(pim, std::move(host));
}

sim::FieldRows<AttentionPimParams> AttentionPimParams::fields() {
  using sim::Unit;
  using P = AttentionPimParams;
  static const sim::FieldTable table{
      sim::required(sim::field("level", &P::level,
                               "Where the processing units sit: at banks, at bank groups, or on the buffer die.")),
      sim::required(sim::field("dram", &P::dram, "Memory of one stack.")),
      sim::required(
          sim::field("stacks", &P::stacks, Unit::count, sim::between(1, 4096), "Number of stacks of the device.")),
      sim::field("power_limited", &P::power_limited, "Whether the stack's power limit slows the units."),
      sim::field("limited_clocks", &P::limited_clocks, Unit::count, sim::between(0, 1024),
                 "Clocks between accesses of a unit under the power limit; 0: follows from power_budget."),
      sim::field(
          "power_budget", &P::power_budget_w, Unit::watts, sim::at_least(0),
          "Power budget of a stack; 0: the power of reads at the peak rate with as many activations as tFAW allows."),
      sim::field("dual_row_buffer", &P::dual_row_buffer,
                 "Whether the host may access banks while units work (NeuPIMs); otherwise they are blocked."),
      sim::field("shared_memory", &P::shared_memory,
                 "Whether the stacks are the host's own memory; otherwise they are attached over the link."),
      sim::field("link_bandwidth", &P::link_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                 "Link bandwidth between host and device, per direction; needed where memory is not shared."),
      sim::field("link_latency", &P::link_latency_s, Unit::seconds, sim::at_least(0),
                 "Latency of a transfer over the link."),
      sim::field("softmax_bandwidth", &P::softmax_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                 "Rate at which a buffer die turns scores into probabilities; 0: the stack's peak bandwidth."),
      sim::field("queries_per_read", &P::queries_per_read, Unit::count, sim::between(1, 256),
                 "Number of query heads served by one pass over their shared keys."),
      sim::field("lanes_per_item", &P::lanes_per_item, Unit::count, sim::between(0, 4096),
                 "Number of pseudo-channels over which one sequence's keys of a head are spread; 0: all of a stack."),
      sim::field("launch", &P::launch_s, Unit::seconds, sim::at_least(0), "Host time to start a kernel."),
      sim::field("offload", &P::offload,
                 "When decode attention goes to the units: whenever they can run it (eligible), or where that is "
                 "faster than the host (fastest)."),
      sim::field("energy", &P::energy, "Energy of the units."),
  };
  return table;
}

}  // namespace orrery::hw
