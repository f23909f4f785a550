// Attention in memory: a device of AttAcc's or NeuPIMs' class beside a GPU or NPU.
//
// Decode attention reads every cached key and value once a step and does one multiply-add a byte or two, so it runs at
// the speed of memory; units inside the stacks see more of it than the host does. They sit at one of three levels of a
// pseudo-channel: a unit a bank, a unit a bank group, or one on the buffer die. With i clocks between accesses of a
// unit and u units a pseudo-channel,
//   bandwidth scale = u tCCD_S / i            i = tCCD_L at bank and bank group, tCCD_S at the buffer die
// since a group's bus carries an access every tCCD_L. The power limit lengthens i: to a published distance
// (`limited_clocks`), else until the stack draws no more than `power_budget`, else no more than the plain interface can
// make it draw (reads at the peak and tFAW's activations). At the banks rows are opened for all banks at once, in time
// that no access uses:
//   effective = scale n i / ((n-1) i + max(tRTP, tRAS - tRCD - (n-1) i) + tRP + tRCD) (1 - refresh)
// with n accesses of a row; a refresh falls between two rows and adds its tRFC.
//
// One launch: a query head of a sequence is an item of GEMV (Q K^T), softmax on the buffer die, GEMV (S V). Items with
// the same keys (`queries_per_read`) share a pass. Items go to stacks, or to parts of `lanes_per_item` pseudo-channels,
// whole; there keys spread over all units, an access at a time. An item's softmax runs beside the next item's products.
// Queries, scores and probabilities cross the pseudo-channels' buses. Prefill, projections and everything else stay on
// the host. Sources: Park et al., "AttAcc!", ASPLOS 2024, and its simulator; Heo et al., "NeuPIMs", ASPLOS 2024. Left
// out: caches that do not fit the stacks, contexts of unequal length within a launch (the mean stands for them).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "hw/base/kernel.hpp"
#include "hw/memory/dram.hpp"
#include "hw/pim/bank_pim.hpp"
#include "sim/base/params.hpp"

namespace orrery::hw {

enum class AttentionPimLevel : std::uint8_t { bank, bank_group, buffer };
constexpr auto enum_names(AttentionPimLevel) {
  using enum AttentionPimLevel;
  return sim::names<AttentionPimLevel>({{"bank", bank}, {"bank_group", bank_group}, {"buffer", buffer}});
}

/// All stacks of one device.
struct AttentionPimParams {
  static constexpr std::string_view kKind = "attention_pim";
  AttentionPimLevel level = AttentionPimLevel::bank;
  DramParams dram;
  std::int64_t stacks = 1;
  bool power_limited = true;
  std::int64_t limited_clocks = 0;
  double power_budget_w = 0;
  bool dual_row_buffer = false, shared_memory = false;
  double link_bandwidth = 0, link_latency_s = 0;
  double softmax_bandwidth = 0;
  std::int64_t queries_per_read = 1, lanes_per_item = 0;
  double launch_s = 0;
  PimOffload offload = PimOffload::fastest;
  PimEnergy energy;
  static sim::FieldRows<AttentionPimParams> fields();
  static void check(const AttentionPimParams& pim, const sim::Node& fields, sim::Faults& faults);
};

/// Units of a pseudo-channel.
std::int64_t units_per_lane(const AttentionPimParams& pim);
/// Clocks between accesses of a unit, power limit included.
std::int64_t access_clocks(const AttentionPimParams& pim);
/// Clocks from one row of a unit to the next while it streams.
double row_period_clocks(const AttentionPimParams& pim);
/// Power of a stack in W while all its units stream at a distance of `clocks`, without background.
double streaming_power_w(const AttentionPimParams& pim, std::int64_t clocks);
/// The budget in force, W a stack.
double power_budget_w(const AttentionPimParams& pim);
/// Internal over external bandwidth: by distances of accesses alone, and with rows and refreshes.
double bandwidth_scale(const AttentionPimParams& pim);
double effective_scale(const AttentionPimParams& pim);

/// Decode attention on the device, by part; `time_s` is all of it, transfers and launch included.
struct AttentionPimTime {
  double time_s = 0;
  double products_s = 0;  ///< both GEMVs with their buses, of the busiest place
  double softmax_s = 0;   ///< of that place, mostly hidden
  double link_s = 0;
  double read_bytes = 0;  ///< from cells, each pass counted
};
AttentionPimTime attention_time(const AttentionPimParams& pim, const AttentionDecode& shape, DType dtype);
/// Cost of decode attention on the device alone.
Cost attention_cost(const AttentionPimParams& pim, const AttentionDecode& shape, DType dtype);

/// Decode attention goes to the device (unless `offload` finds the host faster, which reads the keys of stacks that are
/// not its own over their link), everything else to `host`.
std::unique_ptr<CostModel> make_attention_pim_cost(const AttentionPimParams& pim, std::unique_ptr<CostModel> host);

}  // namespace orrery::hw
