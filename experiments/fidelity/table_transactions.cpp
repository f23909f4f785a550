// `systems/adrs_txn_oracle.csv`: makespans of three workloads by the evaluator of ADRS (Cheng et al. 2025), in the
// order of arrival, reversed, and by greedy appending; the workloads lie beside it.
#include <fmt/format.h>

#include <filesystem>

#include "experiments/fidelity/shipped_policy.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "experiments/systems/transactions/put_down.hpp"

namespace orrery::experiments {
namespace transaction_tables {
namespace {

class TransactionOracle final : public TableKind {
 public:
  std::string_view name() const override { return "adrs_txn_oracle"; }
  bool reads(std::string_view path) const override { return path == "systems/adrs_txn_oracle.csv"; }

  void predict(const MeasuredTable& table, const PartShelf&, Predictions& out) const override {
    constexpr std::string_view kMakespan = "makespan";
    out.each_row(kMakespan, table, [&](std::size_t row) {
      const auto file = table.root() / fmt::format("systems/adrs_txn_workload_{}.json", table.integer(row, "workload"));
      if (!std::filesystem::exists(file)) return out.skip(kMakespan, row, "its workload is not there");
      const transactions::Batch batch = transactions::read_batch(file);
      const auto judge = [&](const char* column, const char* policy, const char* params, std::string_view regime) {
        const sim::Node node = sim::parse_json(params, "params");
        const auto order = shipped_policy(policies::register_transaction_orders, "transaction_order", policy, node)
                               .make(sim::RandomStream(1, "order"));
        out.add(kMakespan, row, table.number(row, column), static_cast<double>(transactions::put_down(batch, *order)),
                {regime});
      };
      judge("sequential_baseline", "sequential", "{}", "sequential");
      judge("reversed", "sequential", R"({"reversed": true})", "reversed");
      judge("full_greedy", "shortest_makespan", "{}", "greedy");
    });
  }
  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    return table.text(row, "workload");
  }
};

}  // namespace
}  // namespace transaction_tables

std::unique_ptr<TableKind> transaction_oracle_tables() {
  return std::make_unique<transaction_tables::TransactionOracle>();
}

}  // namespace orrery::experiments
