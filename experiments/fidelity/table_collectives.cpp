// `collectives/*.csv`: collectives of NCCL and of PyTorch over it, by call, ranks and bytes.
//
// Five layouts, told apart by their columns: `nccl_*` (elements of two bytes), `vidur_*` (bytes, and how many of the
// ranks share a node), `vtrain_allreduce`, `aceso` (clusters by name) and `llmcompass_*`. Rows whose ranks lie on
// several nodes are a metric of their own.
//
// Measuring conditions, which belong to the measuring and not to the link:
// - Vidur launches collectives from the host one by one. A kernel that is shorter than the interval between two
//   launches waits for the rank that comes last, so its time is the interval's; kernels that are longer queue up and
//   wait for nobody. Small messages scatter between both: time = max(model, interval). The intervals are those that
//   leave the least error on the even rows of the all_reduce tables. Its send_recv is the sender's kernel.
// - `nccl_across_pairs`: two ranks that share no bridge.
// - `torch_nccl`: calls of PyTorch on lists of tensors, timed on the host from before the call to after a
//   synchronisation: a host's time for the call and for each tensor of a list. all_gather and reduce_scatter copy
//   between the list and one buffer (all_gather takes the size of a rank's part, and copies all parts), at the device's
//   memory bandwidth. Tensors of an odd length leave the parts of a list unaligned (aceso_sizes.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "experiments/fidelity/aceso_sizes.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "hw/network/node_collective.hpp"

namespace orrery::experiments {
namespace {

using hw::LibraryCall;

/// Interval between two launches of Vidur's profiler on these machines, s, for two, four and eight ranks.
struct HostInterval {
  std::string_view stem;
  double two, four, eight;
};
constexpr HostInterval kHostIntervals[]{
    {"vidur_a100_dgx_all_reduce", 49e-6, 20e-6, 36e-6},
    {"vidur_a100_pairwise_nvlink_all_reduce", 62e-6, 66e-6, 66e-6},
    {"vidur_h100_dgx_all_reduce", 10e-6, 40e-6, 31e-6},
    {"vidur_h100_pairwise_nvlink_all_reduce", 13e-6, 28e-6, 28e-6},
};
/// What `ranks` devices of a node of Vidur's machines send through its adapters, bytes/s, and the time of a message
/// between nodes, s: fitted to the even rows over several nodes, as is the share that a ring reaches. How many adapters
/// a node has is not told; the library reckons with PCIe 4 x16.
struct NodeRate {
  std::string_view machine;
  std::int64_t ranks;
  double bandwidth, latency_s;
};
constexpr NodeRate kNodeRates[]{{"vidur_a100_dgx", 2, 7.45e9, 15e-6},
                                {"vidur_a100_dgx", 4, 12.8e9, 15e-6},
                                {"vidur_a100_dgx", 8, 10.1e9, 15e-6},
                                {"vidur_h100_dgx", 8, 36.5e9, 16e-6},
                                {"vidur_a40_pairwise", 8, 2.76e9, 60e-6}};
constexpr double kPlannedAcross = 32e9, kRingShare = 0.797;

/// An adapter that stands for all that `in_node` devices of a node have; none where nothing is known of the machine.
std::optional<hw::NicPart> node_adapter(std::string_view stem, std::int64_t in_node) {
  for (const NodeRate& entry : kNodeRates) {
    if (!stem.starts_with(entry.machine) || in_node > entry.ranks) continue;
    hw::NicPart nic;
    nic.bandwidth = std::max(kPlannedAcross, entry.bandwidth);
    nic.efficiency = entry.bandwidth / nic.bandwidth;
    nic.latency_s = entry.latency_s;
    nic.ring_share = kRingShare;
    nic.rdma = false;
    return nic;
  }
  return std::nullopt;
}

constexpr double kAchievedMemory = 0.85;  ///< share of the memory's peak that a plain copy reaches
/// PyTorch's host time of a call, and of each tensor in its list; fitted to the even rows of `aceso` on A100.
constexpr double kTorchCall_s = 22e-6, kTorchTensor_s = 14e-6;

double host_interval(std::string_view stem, std::int64_t ranks) {
  for (const HostInterval& entry : kHostIntervals)
    if (entry.stem == stem) return ranks <= 2 ? entry.two : ranks <= 4 ? entry.four : entry.eight;
  return 0;
}

std::optional<LibraryCall> call_of(std::string_view name) {
  if (name == "alltoall") return LibraryCall::all_to_all;
  return sim::value_named<LibraryCall>(name);
}

std::string_view size_regime(std::int64_t bytes) {
  return bytes < 1'000'000 ? "bytes < 1 MB" : "bytes >= 1 MB";
}

std::string_view ranks_a_node(std::int64_t ranks) {
  return ranks == 1   ? "one rank a node"
         : ranks == 2 ? "two ranks a node"
         : ranks <= 4 ? "four ranks a node"
                      : "eight ranks a node";
}

class CollectiveTables final : public TableKind {
 public:
  std::string_view name() const override { return "collectives"; }
  bool reads(std::string_view path) const override { return path.starts_with("collectives/"); }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    if (table.has("cluster")) return predict_clusters(table, parts, out);
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (!found) return out.skip_all("time", table, "no part of the catalog stands for it");
    if (table.has("latency_us_measured")) return predict_four(table, found, out);
    if (table.has("outofplace_ns")) return predict_vtrain(table, parts, found, out);
    if (table.has("message_elements") || table.has("bytes")) return predict_nccl(table, found, out);
    out.skip_all("time", table, "unknown columns");
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    std::string key;
    for (const char* column :
         {"cluster", "collective", "num_gpus", "gpus", "bytes", "size_bytes", "message_elements", "data_size_MB"})
      if (table.has(column)) key += table.text(row, column) + "x";
    return key;
  }

 private:
  using Found = PartShelf::Found<hw::GpuParams>;

  /// `how` tells conditions of a table that the word of its part does not.
  static Learnable learnable(const Found& found, const char* how, LibraryCall call, std::int64_t ranks,
                             std::int64_t bytes) {
    return {found.entry->name, found.measured_as + how, hw::residual_query(call, ranks, bytes)};
  }

  /// `nccl_*` and `vidur_*`.
  static void predict_nccl(const MeasuredTable& table, const Found& found, Predictions& out) {
    hw::LinkParams link = found.entry->part.link;
    if (found.measured_as == "nccl_across_pairs") link.peers = 1;
    const bool vidur = table.has("devices_per_node"), elements = table.has("message_elements");
    const auto across = [&](std::size_t row) {
      return vidur && table.count(row, "devices_per_node") < table.count(row, "num_gpus");
    };
    const auto call_at = [&](std::string_view metric, std::size_t row) {
      const std::optional<LibraryCall> call = call_of(table.text(row, "collective"));
      if (!call) out.skip(metric, row, fmt::format("collective '{}' is not modelled", table.text(row, "collective")));
      return call;
    };
    out.each_row("time", table, [&](std::size_t row) {
      if (across(row)) return;
      const std::optional<LibraryCall> call = call_at("time", row);
      if (!call) return;
      const std::int64_t ranks = table.count(row, "num_gpus");
      const std::int64_t bytes = elements ? 2 * table.count(row, "message_elements", 0) : table.count(row, "bytes", 0);
      const hw::CollectiveCost cost = hw::library_collective(link, *call, ranks, bytes);
      const double us = (vidur ? std::max(cost.sender_s, host_interval(table.stem(), ranks)) : cost.time_s) * 1e6;
      out.add("time", row, table.number(row, "time_us"), us, {size_regime(bytes), to_string(*call)}, {},
              learnable(found, vidur ? "_by_host" : "", *call, ranks, bytes));
    });
    if (!vidur) return;
    out.each_row("time across nodes", table, [&](std::size_t row) {
      if (!across(row)) return;
      if (const auto call = call_at("time across nodes", row)) predict_across(table, link, *call, row, out);
    });
  }

  static void predict_across(const MeasuredTable& table, const hw::LinkParams& link, LibraryCall call, std::size_t row,
                             Predictions& out) {
    const hw::RankGroup group{table.count(row, "num_gpus"), table.count(row, "devices_per_node")};
    const std::optional<hw::NicPart> nic = node_adapter(table.stem(), group.in_node);
    if (!nic) return out.skip("time across nodes", row, "what its nodes' adapters send is not known");
    const std::int64_t bytes = table.count(row, "bytes", 0);
    // Nobody but the group sends: what the node has is the group's.
    const hw::NodeFabric fabric{link, group.in_node, &*nic, 1};
    const double size = static_cast<double>(bytes);
    const double s = call == LibraryCall::send_recv ? hw::node_message(fabric, group.in_node, size).time_s
                                                    : hw::node_collective(fabric, call, group, size).time_s;
    const double us = std::max(s, host_interval(table.stem(), group.ranks)) * 1e6;
    out.add("time across nodes", row, table.number(row, "time_us"), us,
            {size_regime(bytes), ranks_a_node(group.in_node)});
  }

  /// All-reduce out of place and in place, which the model takes for one. The table's part is the board that `gpu`
  /// names where its name starts so; other boards stand as "vtrain_<gpu>".
  static void predict_vtrain(const MeasuredTable& table, const PartShelf& parts, const Found& whole, Predictions& out) {
    const auto predict = [&](std::string_view metric, std::string_view column, std::size_t row) {
      const std::string& gpu = table.text(row, "gpu");
      const Found found = whole.entry->name.starts_with(gpu) ? whole : parts.for_table<hw::GpuParams>("vtrain_" + gpu);
      if (!found || gpu.empty())
        return out.skip(metric, row, fmt::format("no part of the catalog stands for '{}' of this table", gpu));
      const std::int64_t bytes = table.count(row, "size_bytes", 0);
      const hw::CollectiveCost cost =
          hw::library_collective(found.entry->part.link, LibraryCall::all_reduce, table.count(row, "num_gpus"), bytes);
      out.add(metric, row, table.number(row, column) * 1e-3, cost.time_s * 1e6, {size_regime(bytes)}, {},
              learnable(found, "", LibraryCall::all_reduce, table.count(row, "num_gpus"), bytes));
    };
    out.each_row("time", table, [&](std::size_t row) { predict("time", "outofplace_ns", row); });
    if (!table.has("inplace_ns")) return;
    out.each_row("time in place", table, [&](std::size_t row) { predict("time in place", "inplace_ns", row); });
  }

  /// All-reduce among four.
  static void predict_four(const MeasuredTable& table, const Found& found, Predictions& out) {
    out.each_row("time", table, [&](std::size_t row) {
      const std::int64_t bytes = table.count(row, "bytes", 0);
      const double us = hw::library_collective(found.entry->part.link, LibraryCall::all_reduce, 4, bytes).time_s * 1e6;
      out.add("time", row, table.number(row, "latency_us_measured"), us, {size_regime(bytes)});
    });
  }

  /// `aceso`: clusters by name, in PyTorch. A cluster is found as "aceso_<cluster>", also by the start of its name.
  static void predict_clusters(const MeasuredTable& table, const PartShelf& parts, Predictions& out) {
    out.each_row("time", table, [&](std::size_t row) {
      const std::string& cluster = table.text(row, "cluster");
      const Found found = cluster_part(parts, cluster);
      if (!found) return out.skip("time", row, fmt::format("no part of the catalog stands for cluster '{}'", cluster));
      const std::optional<LibraryCall> call = call_of(table.text(row, "collective"));
      const double ms = table.number(row, "time_ms");
      if (!call || !(ms < 1e8))
        return out.skip("time", row, call ? "the measurement failed" : "this collective is not modelled");
      const auto mebibytes = static_cast<std::int64_t>(table.number(row, "data_size_MB"));
      const double s =
          torch_seconds(found.entry->part, *call, table.count(row, "gpus"), aceso_tensor_bytes(cluster, mebibytes));
      out.add("time", row, ms, s * 1e3,
              {to_string(*call), found.entry->part.link.peers == 1           ? "no links"
                                 : found.entry->part.link.pair_bandwidth > 0 ? "mesh"
                                                                             : "switch"},
              {}, learnable(found, "", *call, table.count(row, "gpus"), mebibytes << 20));
    });
  }

  /// One call of PyTorch on a tensor of fp16 (all_gather: of a rank; else what a rank puts in).
  static double torch_seconds(const hw::GpuParams& gpu, LibraryCall call, std::int64_t ranks, std::int64_t tensor) {
    const bool gather = call == LibraryCall::all_gather, whole = call == LibraryCall::all_reduce;
    const std::int64_t part = gather ? tensor : 2 * (tensor / 2 / ranks);
    const std::int64_t bytes = gather ? ranks * tensor : tensor;
    const auto parts = whole || part % 16 == 0 ? hw::PartAlignment::full : hw::PartAlignment::partial;
    double s = hw::library_collective(gpu.link, call, ranks, bytes, parts).time_s + kTorchCall_s;
    if (!whole) s += static_cast<double>(ranks) * kTorchTensor_s;
    if (gather || call == LibraryCall::reduce_scatter)
      s += 2.0 * static_cast<double>(bytes) / (kAchievedMemory * gpu.memory_bandwidth);
    return s;
  }

  static Found cluster_part(const PartShelf& parts, std::string cluster) {
    while (true) {
      if (const Found found = parts.for_table<hw::GpuParams>("aceso_" + cluster)) return found;
      const std::size_t dash = cluster.rfind('-');
      if (dash == std::string::npos) return {};
      cluster.resize(dash);
    }
  }
};

}  // namespace

std::unique_ptr<TableKind> collective_tables() {
  return std::make_unique<CollectiveTables>();
}

}  // namespace orrery::experiments
