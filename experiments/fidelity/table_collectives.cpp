// `collectives/*.csv`: collectives of NCCL and of PyTorch over it, by call, ranks and bytes.
//
// Five layouts, told apart by their columns: `nccl_*` (elements of two bytes), `vidur_*` (bytes, and how many of the
// ranks share a node), `vtrain_allreduce`, `aceso` (clusters by name) and `llmcompass_*`. Rows whose ranks sit on
// several nodes are the network's affair and not covered.
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
#include "hw/network/library_collective.hpp"

namespace orrery::experiments {
namespace {

using hw::LibraryCall;

/// Interval between two launches of Vidur's profiler on these machines, s.
struct HostInterval {
  std::string_view stem;
  double seconds;
};
constexpr HostInterval kHostIntervals[]{
    {"vidur_a100_dgx_all_reduce", 41e-6},
    {"vidur_a100_pairwise_nvlink_all_reduce", 48e-6},
    {"vidur_h100_dgx_all_reduce", 33e-6},
    {"vidur_h100_pairwise_nvlink_all_reduce", 20e-6},
};
constexpr double kAchievedMemory = 0.85;  ///< share of the memory's peak that a plain copy reaches
/// PyTorch's host time of a call, and of each tensor in its list; fitted to the even rows of `aceso` on A100.
constexpr double kTorchCall_s = 22e-6, kTorchTensor_s = 14e-6;

double host_interval(std::string_view stem) {
  for (const HostInterval& entry : kHostIntervals)
    if (entry.stem == stem) return entry.seconds;
  return 0;
}

std::optional<LibraryCall> call_of(std::string_view name) {
  if (name == "alltoall") return LibraryCall::all_to_all;
  return sim::value_named<LibraryCall>(name);
}

std::string_view size_regime(std::int64_t bytes) {
  return bytes < 1'000'000 ? "bytes < 1 MB" : "bytes >= 1 MB";
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
    const double interval = vidur ? host_interval(table.stem()) : 0;
    out.each_row("time", table, [&](std::size_t row) {
      const std::int64_t ranks = table.count(row, "num_gpus");
      if (vidur && table.count(row, "devices_per_node") != ranks)
        return out.skip("time", row, "ranks on several nodes: the network's affair");
      const std::string& name = table.text(row, "collective");
      const std::optional<LibraryCall> call = call_of(name);
      if (!call) return out.skip("time", row, fmt::format("collective '{}' is not modelled", name));
      const std::int64_t bytes = elements ? 2 * table.count(row, "message_elements", 0) : table.count(row, "bytes", 0);
      const hw::CollectiveCost cost = hw::library_collective(link, *call, ranks, bytes);
      const double us = std::max(vidur ? cost.sender_s : cost.time_s, interval) * 1e6;
      out.add("time", row, table.number(row, "time_us"), us, {size_regime(bytes), to_string(*call)}, {},
              learnable(found, vidur ? "_by_host" : "", *call, ranks, bytes));
    });
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
