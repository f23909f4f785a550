// `elementwise/<stem>.csv`: passes of PyTorch LLM layers by model, operation, tokens, sizes and tensor parallelism.
//
// Which kernel an operation is follows from the model: gated models with RMS norm run vLLM's kernels, a block a token;
// phi-2 runs PyTorch's layer norm, a plain GELU, and adds attention, MLP and residual in two kernels, since both work
// on the same input. Rotary embeddings turn all dimensions of queries and keys in every profile, phi-2's too: the
// profile leaves its partial rotation out (its times are those of all 80 dimensions).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "experiments/fidelity/table_kind.hpp"
#include "hw/cost_model.hpp"
#include "hw/kernel_builders.hpp"

namespace orrery::experiments {
namespace {

/// Heads of a model as its public config gives them; `parallel`: attention and MLP side by side, layer norm, GELU.
struct Model {
  std::string_view name;  ///< how the table's name starts, before sizes and suffixes that do not matter
  std::int64_t heads, kv_heads;
  bool parallel = false;
};
constexpr std::array kModels{
    Model{"Llama-2-7b", 32, 32},        Model{"Llama-2-13b", 40, 40},     Model{"Llama-2-70b", 64, 8},
    Model{"Meta-Llama-3-8B", 32, 8},    Model{"Meta-Llama-3-70B", 64, 8}, Model{"Meta-Llama-3.1-8B", 32, 8},
    Model{"Meta-Llama-3.1-70B", 64, 8}, Model{"Llama-3-8B", 32, 8},       Model{"Llama-3-70B", 64, 8},
    Model{"CodeLlama-7b", 32, 32},      Model{"CodeLlama-13b", 40, 40},   Model{"CodeLlama-34b", 64, 8},
    Model{"CodeLlama-70b", 64, 8},      Model{"Mistral-7B", 32, 8},       Model{"internlm-7b", 32, 32},
    Model{"internlm-20b", 40, 40},      Model{"internlm2-7b", 32, 8},     Model{"internlm2-20b", 48, 8},
    Model{"Qwen-7B", 32, 32},           Model{"Qwen-14B", 40, 40},        Model{"Qwen-72B", 64, 64},
    Model{"Qwen2-7B", 28, 4},           Model{"Qwen2-72B", 64, 8},        Model{"Yi-34B", 56, 8},
    Model{"phi-2", 32, 32, true},
};

const Model* model_named(std::string_view name) {
  const Model* found = nullptr;
  for (const Model& model : kModels)
    if (name.starts_with(model.name) && (!found || model.name.size() > found->name.size())) found = &model;
  return found;
}

struct Operation {
  hw::Kernel kernel;
  std::int64_t launches = 1;
};

/// The kernel of a row, or nothing for an operation that is not known.
std::optional<Operation> operation(const MeasuredTable& table, std::size_t row, const Model& model) {
  using namespace hw;
  constexpr DType kType = DType::fp16;
  const std::string& op = table.text(row, "op");
  const std::int64_t tokens = table.integer(row, "tokens"), hidden = table.integer(row, "hidden");
  const std::int64_t tp = std::max<std::int64_t>(1, table.integer(row, "tp"));
  if (op == "input_layernorm" || op == "post_attention_layernorm")
    return Operation{norm_kernel(model.parallel ? Norm::layer : Norm::rms, tokens, hidden, kType)};
  if (op == "add") return Operation{residual_kernel(tokens, hidden, kType), model.parallel ? 2 : 1};
  if (op == "mlp_act") {
    const std::int64_t width = table.integer(row, "ffn") / tp;
    const Activation activation = model.parallel ? Activation::gelu : Activation::silu;
    return Operation{activation_kernel(activation, !model.parallel, tokens, width, kType)};
  }
  if (op == "attn_rope") {
    const std::int64_t kv_heads = std::max<std::int64_t>(1, model.kv_heads / tp);
    return Operation{rope_kernel(tokens, model.heads / tp, kv_heads, hidden / model.heads, kType)};
  }
  return std::nullopt;
}

class ElementwiseTables final : public TableKind {
 public:
  std::string_view name() const override { return "elementwise"; }
  bool reads(std::string_view path) const override { return path.starts_with("elementwise/"); }

  void predict(const MeasuredTable& table, const PartShelf& parts, Predictions& out) const override {
    const auto found = parts.for_table<hw::GpuParams>(table.stem());
    if (!found) return out.skip_all("time", table, "no part of the catalog stands for it");
    const auto tiled = hw::make_cost_model("tiled", found.entry->part);
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const Model* model = model_named(table.text(row, "model"));
      if (!model) {
        out.skip("time", row, fmt::format("layers of model '{}' are not known", table.text(row, "model")));
        continue;
      }
      const std::optional<Operation> op = operation(table, row, *model);
      if (!op) {
        out.skip("time", row, fmt::format("operation '{}' is not known", table.text(row, "op")));
        continue;
      }
      const double us = static_cast<double>(op->launches) * tiled->cost(op->kernel).time_s * 1e6;
      out.add("time", row, table.number(row, "time_us"), us, {regime(table.text(row, "op"))});
    }
  }

  std::string shape_key(const MeasuredTable& table, std::size_t row) const override {
    std::string key;
    for (const char* column : {"model", "op", "tokens", "hidden", "ffn", "tp"}) key += table.text(row, column) + "x";
    return key;
  }

 private:
  static std::string_view regime(const std::string& op) {
    if (op == "add") return "add";
    if (op == "mlp_act") return "activation";
    return op == "attn_rope" ? "rope" : "norm";
  }
};

}  // namespace

std::unique_ptr<TableKind> elementwise_tables() {
  return std::make_unique<ElementwiseTables>();
}

}  // namespace orrery::experiments
