// `elementwise/<stem>.csv`: passes of PyTorch LLM layers by model, operation, tokens, sizes and tensor parallelism.
//
// Which kernel an operation is follows from the model: gated models with RMS norm run vLLM's kernels, a block a token;
// phi-2 runs PyTorch's layer norm, a plain GELU, and adds attention, MLP and residual in two kernels, since both work
// on the same input. A model that is not in the list is taken by its sizes: an MLP of four times the hidden size is
// GPT's (layer norm, plain GELU), any other Llama's; heads have 128 dimensions (64 below a hidden size of 4096 that 128
// does not divide), and keys have a head for each of the queries'. Rotary embeddings turn all dimensions of queries and
// keys in every profile, phi-2's too: the profile leaves its partial rotation out (its times are those of all 80
// dimensions).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "experiments/fidelity/table_kind.hpp"
#include "hw/base/kernel_builders.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/tiled/tiled.hpp"

namespace orrery::experiments {
namespace {

/// Heads of a model as its public config gives them.
struct Model {
  std::string_view name;  ///< how the table's name starts, before sizes and suffixes that do not matter
  std::int64_t heads, kv_heads;
  bool plain = false;     ///< layer norm and an MLP of GELU without a gate
  bool parallel = false;  ///< attention and MLP side by side
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
    Model{"phi-2", 32, 32, true, true},
};

/// The model of a row; a name may have an owner before it ("meta-llama/Llama-2-7b-hf").
Model model_of(const MeasuredTable& table, std::size_t row) {
  std::string_view name = table.text(row, "model");
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  const Model* found = nullptr;
  for (const Model& model : kModels)
    if (name.starts_with(model.name) && (!found || model.name.size() > found->name.size())) found = &model;
  if (found) return *found;
  const std::int64_t hidden = table.count(row, "hidden");
  const std::int64_t heads = std::max<std::int64_t>(1, hidden / (hidden % 128 == 0 ? 128 : 64));
  const bool plain = !table.text(row, "ffn").empty() && table.integer(row, "ffn") == 4 * hidden;
  return {{}, heads, heads, plain};
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
  const std::int64_t tokens = table.count(row, "tokens"), hidden = table.count(row, "hidden");
  const std::int64_t tp = table.count(row, "tp");
  if (op == "input_layernorm" || op == "post_attention_layernorm")
    return Operation{norm_kernel(model.plain ? Norm::layer : Norm::rms, tokens, hidden, kType)};
  if (op == "add") return Operation{residual_kernel(tokens, hidden, kType), model.parallel ? 2 : 1};
  if (op == "mlp_act") {
    const std::int64_t width = ceil_div(table.count(row, "ffn"), tp);
    const Activation activation = model.plain ? Activation::gelu : Activation::silu;
    return Operation{activation_kernel(activation, !model.plain, tokens, width, kType)};
  }
  if (op == "attn_rope") {
    return Operation{rope_kernel(tokens, ceil_div(model.heads, tp), ceil_div(model.kv_heads, tp),
                                 std::max<std::int64_t>(1, hidden / model.heads), kType)};
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
    out.each_row("time", table, [&](std::size_t row) {
      const std::string& name = table.text(row, "op");
      const std::optional<Operation> op = operation(table, row, model_of(table, row));
      if (!op) return out.skip("time", row, fmt::format("operation '{}' is not known", name));
      const double us = static_cast<double>(op->launches) * tiled->cost(op->kernel).time_s * 1e6;
      out.add("time", row, table.number(row, "time_us"), us, {regime(name)});
    });
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
