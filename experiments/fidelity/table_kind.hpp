// Kinds of measured tables: which files are of the kind, and what the catalog's parts predict for their rows.
//
// One kind, one file (`table_<kind>.cpp`), listed in table_kinds.cpp. A kind reads the inputs of a row (shape, device,
// settings) and, to hand it on, the measured value; a prediction never depends on what was measured.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/fidelity/measured_table.hpp"
#include "experiments/fidelity/part_shelf.hpp"
#include "hw/cost/residual.hpp"

namespace orrery::experiments {

/// Of a row that is a latency of a run that an engine served: what somebody finds the errors of runs like his by.
struct ServedRun {
  std::string_view figure;  ///< "ttft" or "tpot"
  std::string part;         ///< of the catalog
  std::string_view engine;  ///< "vLLM 0.19"
  std::string_view policy;  ///< the batching policy that stands for it; empty where none does
  bool experts = false;     ///< of the model; else it is dense
};

/// Of a row whose error a residual may learn: which part ran what, by whose kernels.
struct Learnable {
  std::string part;     ///< of the catalog
  std::string library;  ///< the word of its `tables`
  hw::ResidualQuery query;
};

/// A row that measured a kernel on a GPU; nothing where no residual corrects kernels like it.
std::optional<Learnable> learnable(const hw::CatalogEntry<hw::GpuParams>& gpu, const std::string& library,
                                   const hw::Kernel& kernel);

/// What a kind says of the rows of one table.
class Predictions {
 public:
  struct Row {
    std::size_t row = 0;  ///< of the table
    double measured = 0, predicted = 0;
    std::vector<std::string_view> regimes;  ///< sub-regimes it belongs to, "m <= 256" …: string literals
    std::optional<ServedRun> served;        ///< all of its texts but `part` are literals
    std::optional<Learnable> learnable;
  };
  struct Column {
    std::string metric;  ///< "time", "cycles", "kernel", "power" …
    std::vector<Row> rows;
    std::size_t uncovered = 0;
    std::vector<std::string> reasons;  ///< why rows are uncovered, each once, the first few
  };

  /// A row that a model covers; times in s or whatever unit both share. A measurement that is not above zero is none:
  /// such a row is skipped.
  void add(std::string_view metric, std::size_t row, double measured, double predicted,
           std::initializer_list<std::string_view> regimes = {}, std::optional<ServedRun> served = {},
           std::optional<Learnable> learnable = {});
  /// A row that no model covers, and why.
  void skip(std::string_view metric, std::size_t row, std::string_view reason);
  void skip_all(std::string_view metric, const MeasuredTable& table, std::string_view reason);
  /// Calls `predict_row(row)` for every row. A row whose cells are at fault (sim::ConfigError, or sizes beyond 64 bits)
  /// is skipped with the fault as the reason; the others stand.
  void each_row(std::string_view metric, const MeasuredTable& table,
                const std::function<void(std::size_t row)>& predict_row);

  const std::vector<Column>& columns() const { return columns_; }

 private:
  Column& column(std::string_view metric);
  std::vector<Column> columns_;
};

class TableKind {
 public:
  virtual ~TableKind() = default;
  virtual std::string_view name() const = 0;  ///< "gemm", "attention_context"
  /// Whether the file of this relative path ("gemm/a100.csv") is of this kind.
  virtual bool reads(std::string_view path) const = 0;
  /// Predicts every row of the table, or says why not.
  virtual void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const = 0;
  /// What makes two rows one shape: rows of one key are held out together.
  virtual std::string shape_key(const MeasuredTable& table, std::size_t row) const = 0;
  /// What makes rows alike in more than shape (weights of one size, heads of one model): held out together where the
  /// question is what a residual learned. The shape where a kind knows of nothing coarser.
  virtual std::string group_key(const MeasuredTable& table, std::size_t row) const { return shape_key(table, row); }
};

/// The number format of a cell: the names of hw::DType, and those of frameworks ("bfloat16", "half", "e4m3").
std::optional<hw::DType> dtype_named(std::string_view name);

/// Experts of a layer beyond which a cell is wrong, and routing would take minutes.
inline constexpr std::int64_t kMostExperts = 1 << 14;

/// Every kind there is, in the order in which files are offered to them.
std::vector<std::unique_ptr<TableKind>> table_kinds();

/// One function a file.
std::unique_ptr<TableKind> attention_tables();
std::unique_ptr<TableKind> collective_tables();
std::unique_ptr<TableKind> deepep_tables();
std::unique_ptr<TableKind> edge_attention_tables();
std::unique_ptr<TableKind> edge_layernorm_tables();
std::unique_ptr<TableKind> elementwise_tables();
std::unique_ptr<TableKind> eplb_oracle_tables();
std::unique_ptr<TableKind> expert_placement_tables();
std::unique_ptr<TableKind> gemm_tables();
std::unique_ptr<TableKind> grouped_tables();
std::unique_ptr<TableKind> ktransformers_tables();
std::unique_ptr<TableKind> layer_tables();
std::unique_ptr<TableKind> moe_cache_oracle_tables();
std::unique_ptr<TableKind> moe_ep_imbalance_tables();
std::unique_ptr<TableKind> moe_router_profile_tables();
std::unique_ptr<TableKind> moe_tables();
std::unique_ptr<TableKind> npu_tables();
std::unique_ptr<TableKind> pim_tables();
std::unique_ptr<TableKind> profile_tables();
std::unique_ptr<TableKind> serving_apex_tables();
std::unique_ptr<TableKind> serving_layered_tables();
std::unique_ptr<TableKind> serving_sarathi_tables();
std::unique_ptr<TableKind> serving_splitwise_tables();
std::unique_ptr<TableKind> serving_vllm_tables();
std::unique_ptr<TableKind> silicon_tables();
std::unique_ptr<TableKind> stream_tables();
std::unique_ptr<TableKind> training_aceso_tables();
std::unique_ptr<TableKind> training_interference_tables();
std::unique_ptr<TableKind> training_llmfoundry_tables();
std::unique_ptr<TableKind> training_megatron_tables();
std::unique_ptr<TableKind> training_mist_tables();
std::unique_ptr<TableKind> training_nemo_tables();
std::unique_ptr<TableKind> training_step_tables();
std::unique_ptr<TableKind> training_torchtitan_tables();
std::unique_ptr<TableKind> training_vtrain_tables();
std::unique_ptr<TableKind> training_zero_bubble_tables();
std::unique_ptr<TableKind> transaction_oracle_tables();
std::unique_ptr<TableKind> wide_ep_tables();

}  // namespace orrery::experiments
