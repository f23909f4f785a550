#include "experiments/systems/aggregate/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "experiments/base/catalog.hpp"
#include "experiments/base/config_experiment.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/figures.hpp"
#include "hw/pim/pygim_spmm.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments {
namespace aggregate {
namespace {

using sim::Node;

struct MachineParams {
  std::string part = "pygim-upmem";
  Node override_;
  static constexpr auto fields() {
    using M = MachineParams;
    return sim::FieldTable{
        names_part(sim::field("part", &M::part, sim::Unit::reference, sim::any_value(),
                              "Memory with DPUs, a part of kind pim_spmm.")),
        sim::annotated(sim::field("override", &M::override_, "Fields of the part to change."),
                       [](sim::FieldInfo& info, const sim::RegistrySet*) {
                         info.nested = sim::describe_params<hw::PimSpmmParams>();
                       }),
    };
  }
};

/// Order in which the rows of A stand.
enum class RowOrder : std::uint8_t {
  random,    ///< nodes of many and of few edges mixed
  by_degree  ///< the node with most edges first
};
constexpr auto enum_names(RowOrder) {
  using enum RowOrder;
  return sim::names<RowOrder>({{"random", random}, {"by_degree", by_degree}});
}

struct WorkloadParams {
  std::int64_t nodes = 232'965, edges = 114'600'000, features = 256;
  double degree_cv = 0;
  RowOrder order = RowOrder::random;
  std::int64_t element_bytes = 4;
  static constexpr auto fields() {
    using sim::Unit;
    using W = WorkloadParams;
    return sim::FieldTable{
        sim::field("nodes", &W::nodes, Unit::count, sim::between(1, 1 << 24), "Rows and columns of A."),
        sim::field("edges", &W::edges, Unit::count, sim::between(1, std::int64_t{1} << 36), "Non-zeros of A."),
        sim::field("features", &W::features, Unit::count, sim::between(1, 1 << 16), "Columns of B."),
        sim::field("degree_cv", &W::degree_cv, Unit::ratio, sim::between(0, 100),
                   "Coefficient of variation of the edges per node (log-normal); 0: all nodes have the same number."),
        sim::field("order", &W::order, "Order of the rows: random, or by_degree (most edges first)."),
        sim::field("element_bytes", &W::element_bytes, Unit::bytes, sim::between(1, 8),
                   "Bytes of a value; the part's rates are for 4 bytes."),
    };
  }
};

struct PolicyParams {
  std::optional<std::int64_t> sparse_parts;
  hw::SparseFormat format = hw::SparseFormat::csr;
  hw::RowBalance over_dpus = hw::RowBalance::nnz, over_tasklets = hw::RowBalance::nnz;
  std::int64_t tasklets = 16;
  static constexpr auto fields() {
    using P = PolicyParams;
    return sim::FieldTable{
        sim::field("sparse_parts", &P::sparse_parts, sim::Unit::count, sim::between(1, 1 << 20),
                   "Number of column parts of A, a divisor of the part's groups; null: as found by the tuner."),
        sim::field("format", &P::format, "Format of A: csr, or coo, which may cut rows to balance non-zeros."),
        sim::field("over_dpus", &P::over_dpus, "What is balanced over DPUs: rows (row) or non-zeros (nnz)."),
        sim::field("over_tasklets", &P::over_tasklets,
                   "What is balanced over the tasklets of a DPU: rows (row) or non-zeros (nnz)."),
        sim::field("tasklets", &P::tasklets, sim::Unit::count, sim::between(1, 64), "Tasklets per DPU."),
    };
  }
};

struct RunParams {
  std::int64_t seed = 1;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("seed", &RunParams::seed, sim::Unit::none, sim::at_least(0), "Seed of the drawn degrees.")};
  }
};

struct Sections {
  MachineParams machine;
  WorkloadParams workload;
  PolicyParams policies;
  RunParams run;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{sim::section("machine", &S::machine, "The DPUs and their host."),
                           sim::section("workload", &S::workload, "The graph and its features."),
                           sim::section("policies", &S::policies, "How the matrices are divided."),
                           sim::section("run", &S::run, "Seed of the run.")};
  }
};

/// Edges of each node.
std::vector<double> degrees(const WorkloadParams& graph, std::int64_t seed) {
  const double mean = static_cast<double>(graph.edges) / static_cast<double>(graph.nodes);
  std::vector<double> all(static_cast<std::size_t>(graph.nodes), mean);
  if (graph.degree_cv == 0) return all;
  // Of a log-normal: cv^2 = exp(sigma^2) - 1, mean = exp(mu + sigma^2 / 2).
  const double sigma = std::sqrt(std::log1p(graph.degree_cv * graph.degree_cv));
  sim::RandomStream random(static_cast<std::uint64_t>(seed), "degrees");
  double sum = 0;
  for (double& degree : all) sum += degree = random.log_normal(-sigma * sigma / 2, sigma);
  for (double& degree : all) degree *= static_cast<double>(graph.edges) / sum;
  if (graph.order == RowOrder::by_degree) std::sort(all.begin(), all.end(), std::greater<>{});
  return all;
}

class AggregateExperiment final : public ConfigExperiment {
 public:
  AggregateExperiment(const Node& root, const Systems& systems, sim::Faults& faults) {
    config_ = read_sections<Sections>(root, *systems.registries(), faults);
    if (!faults.empty()) return;
    const Node machine = section(root, "machine"), policies = section(root, "policies");
    const std::filesystem::path file = part_file(config_.machine.part, place_of(machine, "part"), faults);
    if (file.empty()) return;
    inputs_.push_back(file);
    Node entry = sim::read_config(file);
    if (config_.machine.override_.is_object()) sim::merge_over(entry, config_.machine.override_);
    part_ = hw::parse_part<hw::PimSpmmParams>(entry, faults).part;
    if (!faults.empty()) return;
    if (config_.policies.sparse_parts && part_.groups % *config_.policies.sparse_parts != 0)
      faults.add(place_of(policies, "sparse_parts"), fmt::format("expected a divisor of the part's {} groups, got {}",
                                                                 part_.groups, *config_.policies.sparse_parts));
    if (config_.policies.tasklets > part_.max_tasklets)
      faults.add(place_of(policies, "tasklets"), fmt::format("expected at most the {} tasklets of a DPU, got {}",
                                                             part_.max_tasklets, config_.policies.tasklets));
    resolved_ = resolved_config("aggregate", config_);
  }

  Outcome run(const RunSink&) const override {
    Outcome outcome;
    Node& node = outcome.summary = Node::object();
    const hw::SpmmShape shape = shape_of();
    const auto result = config_.policies.sparse_parts ? listed(shape) : hw::tune_pim_spmm(part_, shape);
    if (const auto* lacks = std::get_if<hw::SpmmDoesNotFit>(&result)) {
      node.set("status", Node::string("infeasible"));
      node.set("reason", Node::string(lacks->reason));
      return outcome;
    }
    const auto& [split, times] = std::get<hw::TunedSpmm>(result);
    hw::SpmmShape on_cpu = shape;
    on_cpu.index_bytes = 4;  // the CPU's library keeps CSR
    const double cpu_s = hw::cpu_spmm_s(part_, on_cpu);
    node.set("status", Node::string("ok"));
    node.set("simulated_s", Node::real(times.total_s()));
    Node& phases = node.set("phase_s", Node::object());
    phases.set("load", Node::real(times.load_s));
    phases.set("kernel", Node::real(times.kernel_s));
    phases.set("retrieve", Node::real(times.retrieve_s));
    phases.set("merge", Node::real(times.merge_s));
    node.set("sparse_parts", Node::integer(split.sparse_parts));
    node.set("dense_parts", Node::integer(split.dense_parts));
    Node& busiest = node.set("busiest_dpu", Node::object());
    busiest.set("nonzeros", Node::real(shape.busiest.nonzeros));
    busiest.set("time", Node::real(shape.busiest.time));
    node.set("cpu_s", Node::real(cpu_s));
    node.set("gain", ratio(cpu_s, times.total_s()));
    return outcome;
  }

 private:
  hw::SpmmShape shape_of() const {
    const WorkloadParams& graph = config_.workload;
    const PolicyParams& policies = config_.policies;
    hw::SpmmShape shape{.rows = static_cast<double>(graph.nodes),
                        .nonzeros = static_cast<double>(graph.edges),
                        .features = static_cast<double>(graph.features)};
    shape.element_bytes = static_cast<double>(graph.element_bytes);
    shape.index_bytes = policies.format == hw::SparseFormat::coo ? 8 : 4;
    shape.busiest =
        hw::busiest_dpu(degrees(graph, config_.run.seed), std::max<std::int64_t>(1, part_.dpus / part_.groups),
                        {.format = policies.format,
                         .over_dpus = policies.over_dpus,
                         .over_tasklets = policies.over_tasklets,
                         .tasklets = policies.tasklets},
                        part_.fill_tasklets);
    return shape;
  }

  /// The parts that the config names.
  std::variant<hw::TunedSpmm, hw::SpmmDoesNotFit> listed(const hw::SpmmShape& shape) const {
    const hw::SpmmSplit split{*config_.policies.sparse_parts, part_.groups / *config_.policies.sparse_parts};
    const auto result = hw::pim_spmm(part_, shape, split);
    if (const auto* lacks = std::get_if<hw::SpmmDoesNotFit>(&result)) return *lacks;
    return hw::TunedSpmm{split, std::get<hw::SpmmTimes>(result)};
  }

  Sections config_;
  hw::PimSpmmParams part_;
};

}  // namespace
}  // namespace aggregate

System aggregate_system() {
  return {
      .name = "aggregate",
      .doc =
          "Prices the sparse product of a graph neural network on UPMEM with its host (PyGim), and on the CPU alone.",
      .fields = describe_sections<aggregate::Sections>,
      .read = read_as<aggregate::AggregateExperiment>};
}

}  // namespace orrery::experiments
