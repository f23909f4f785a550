// How far the shipped parts are from measurement, on rows that did not calibrate them.
//
// Reads the reference data beside the checkout and is skipped, with a message, where that is absent. Prints one line a
// table: mean absolute percentage error (MAPE) and mean signed error of the rows of the models that were fitted and of
// those held out; asserts bounds a little above what is reached (docs/explain/hardware.md holds the same table).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "experiments/fidelity/table_kind.hpp"
#include "hw/base/kernel_builders.hpp"
#include "hw/tiled/tiled.hpp"
#include "tests/hw/parts.hpp"

namespace test_hw_fidelity {

using namespace orrery::hw;
using orrery::hw::test::model;
using orrery::hw::test::part;
using orrery::hw::test::prompts;

namespace {

/// A CSV with a header, its cells by column name.
class Table {
 public:
  explicit Table(const std::string& path) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    const std::vector<std::string> header = split(line, ',');
    for (std::size_t i = 0; i < header.size(); ++i) columns_[header[i]] = i;
    while (std::getline(in, line))
      if (!line.empty()) rows_.push_back(split(line, ','));
  }
  std::size_t size() const { return rows_.size(); }
  const std::string& text(std::size_t row, const std::string& column) const { return rows_[row][columns_.at(column)]; }
  double number(std::size_t row, const std::string& column) const { return std::stod(text(row, column)); }
  std::int64_t integer(std::size_t row, const std::string& column) const { return std::stoll(text(row, column)); }

  static std::vector<std::string> split(const std::string& line, char separator) {
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, separator);) cells.push_back(cell);
    return cells;
  }

 private:
  std::map<std::string, std::size_t> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Relative errors of one group of rows.
struct Errors {
  double absolute = 0, signed_sum = 0;
  std::size_t rows = 0;
  void add(double predicted, double measured) {
    absolute += std::abs(predicted / measured - 1);
    signed_sum += predicted / measured - 1;
    ++rows;
  }
  double mape() const { return rows == 0 ? 0 : 100 * absolute / static_cast<double>(rows); }
  double bias() const { return rows == 0 ? 0 : 100 * signed_sum / static_cast<double>(rows); }
};

std::string shown(const char* what, const Errors& errors) {
  if (errors.rows == 0) return {};
  char text[96];
  std::snprintf(text, sizeof text, "   %s %5.1f %% (%5zu rows, mean %+5.1f %%)", what, errors.mape(), errors.rows,
                errors.bias());
  return text;
}

void print(const std::string& table, const Errors& fit, const Errors& held) {
  std::cout << table << std::string(table.size() < 48 ? 48 - table.size() : 0, ' ') << shown("fitted", fit)
            << shown("held out", held) << '\n';
}

const std::string kData = std::string(ORRERY_SHARED_DIR) + "/data/";

/// False, with a message, where the reference data is not there.
bool data_present(const std::string& file) {
  if (std::filesystem::exists(kData + file)) return true;
  WARN("skipped: no reference data at " << kData + file);
  return false;
}

struct Device {
  const char* table;
  const char* part;
};
constexpr Device kA100{"a100", "a100-sxm4-80gb"};
constexpr Device kH100{"h100", "h100-sxm5-80gb"};

bool is_fit_model(const std::string& name) {
  return name == "Llama-2-7b-hf" || name == "Llama-2-70b-hf" || name == "Qwen-72B";
}

/// A table of matrix products and the conditions it was measured under (experiments/fidelity/table_gemm.cpp).
struct Products {
  const char *table, *part;
  GemmConditions conditions;
  bool graph;  ///< launched as a node of a graph, not one by one
};

Errors check_gemm(const Products& products) {
  const std::string file = std::string("gemm/") + products.table + ".csv";
  if (!data_present(file)) return {};
  const GpuParams gpu = part(products.part);
  const double launch_s = products.graph ? gpu.launch_graph_s : gpu.launch_stream_s;
  const auto roofline = model("roofline", gpu);
  const Table table(kData + file);
  Errors all, small, baseline;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Gemm shape{table.integer(i, "m"), table.integer(i, "n"), table.integer(i, "k")};
    const double us = (launch_s + plan_gemm(gpu, shape, DType::fp16, products.conditions).time.time_s) * 1e6;
    const double measured = table.number(i, "time_us");
    all.add(us, measured);
    if (shape.m <= 256) small.add(us, measured);
    baseline.add(roofline->cost({OpClass::ffn_up, DType::fp16, shape}).time_s * 1e6, measured);
  }
  print(file, all, {});
  print("  of which m <= 256", small, {});
  print("  roofline", baseline, {});
  return all;
}

/// Combinations of heads, key heads and head dimension that attention was fitted to: two of three.
bool is_fit_attention(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  return (5 * heads + 3 * kv_heads + head_dim) % 3 != 0;
}

/// Held-out errors of "<stem>.context" or "<stem>.generation", as `orrery fidelity` predicts them.
Errors check_attention(const std::string& name) {
  const std::string file = "attention/" + name + ".csv";
  if (!data_present(file)) return {};
  const auto table = orrery::experiments::MeasuredTable::read(kData, file);
  const orrery::experiments::PartShelf parts(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog");
  orrery::experiments::Predictions predictions;
  orrery::experiments::attention_tables()->predict(table, parts, predictions);
  Errors fit, held, wide;
  for (const auto& row : predictions.columns().at(0).rows) {
    const std::int64_t head_dim = table.integer(row.row, "head_dim");
    const bool fitted =
        is_fit_attention(table.integer(row.row, "num_heads"), table.integer(row.row, "num_kv_heads"), head_dim);
    (head_dim > 256 ? wide : fitted ? fit : held).add(row.predicted, row.measured);
  }
  print(file, fit, held);
  if (wide.rows > 0) print("  of which head_dim = 512", {}, wide);
  return held;
}

/// The kernel of an operation of Vidur's elementwise tables, and how often it runs: phi-2 adds attention, MLP and
/// residual in two kernels, and has layer norm and a plain GELU.
std::pair<Kernel, double> streaming_kernel(const Table& table, std::size_t i) {
  const std::string &op = table.text(i, "op"), &name = table.text(i, "model");
  const std::int64_t tokens = table.integer(i, "tokens"), hidden = table.integer(i, "hidden");
  const std::int64_t ffn = table.integer(i, "ffn") / table.integer(i, "tp"), tp = table.integer(i, "tp");
  const bool grouped = name == "Llama-2-70b-hf" || name == "CodeLlama-34b-Instruct-hf";  // 8 key heads of 64
  const bool gated = name != "phi-2";
  if (op == "input_layernorm") return {norm_kernel(gated ? Norm::rms : Norm::layer, tokens, hidden, DType::fp16), 1};
  if (op == "add") return {residual_kernel(tokens, hidden, DType::fp16), gated ? 1 : 2};
  if (op == "mlp_act")
    return {activation_kernel(gated ? Activation::silu : Activation::gelu, gated, tokens, ffn, DType::fp16), 1};
  const std::int64_t head_dim = gated ? 128 : 80, heads = hidden / head_dim;
  return {rope_kernel(tokens, heads / tp, (grouped ? 8 : heads) / tp, head_dim, DType::fp16), 1};
}

/// Held-out errors: all models, and without phi-2.
std::pair<Errors, Errors> check_elementwise(const Device& device) {
  const std::string file = std::string("elementwise/") + device.table + ".csv";
  if (!data_present(file)) return {};
  const auto tiled = model("tiled", part(device.part));
  const Table table(kData + file);
  Errors fit, held, held_llama;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto [kernel, times] = streaming_kernel(table, i);
    const double us = times * tiled->cost(kernel).time_s * 1e6, measured = table.number(i, "time_us");
    (is_fit_model(table.text(i, "model")) ? fit : held).add(us, measured);
    if (!is_fit_model(table.text(i, "model")) && table.text(i, "model") != "phi-2") held_llama.add(us, measured);
  }
  print(file, fit, held);
  print("  without phi-2", {}, held_llama);
  return {held, held_llama};
}

}  // namespace

TEST_CASE("matrix products against PyTorch kernels", "[validation][fidelity]") {
  constexpr GemmConditions kCold{.weight_copies = 0, .activity = 1, .multicast = false, .rest_s = 47e-6};
  CHECK(check_gemm({"a100", "a100-sxm4-80gb", kCold, false}).mape() < 6);
  CHECK(check_gemm({"a40", "a40", kCold, false}).mape() < 7.5);
  CHECK(check_gemm({"h100", "h100-sxm5-80gb", kCold, false}).mape() < 8.2);
}

TEST_CASE("matrix products against vLLM layers called again and again", "[validation][fidelity]") {
  constexpr GemmConditions kHot{.weight_copies = 6}, kIdle{.weight_copies = 6, .activity = 0.4};
  CHECK(check_gemm({"a100_sxm", "a100-sxm4-80gb", kIdle, true}).mape() < 8.5);
  CHECK(check_gemm({"h100_sxm", "h100-sxm5-80gb", kHot, true}).mape() < 6.8);
  CHECK(check_gemm({"h200_sxm", "h200-sxm-141gb", kHot, true}).mape() < 7);
  CHECK(check_gemm({"l40s", "l40s", kHot, true}).mape() < 11.8);
}

TEST_CASE("attention against vLLM kernels", "[validation][fidelity]") {
  CHECK(check_attention("a100_sxm.context").mape() < 6);
  CHECK(check_attention("a100_sxm.generation").mape() < 6);
  CHECK(check_attention("h100_sxm.context").mape() < 7.5);
  CHECK(check_attention("h100_sxm.generation").mape() < 8.5);
  CHECK(check_attention("h200_sxm.context").mape() < 10);
  CHECK(check_attention("h200_sxm.generation").mape() < 8);
  CHECK(check_attention("l40s.context").mape() < 8);
  CHECK(check_attention("l40s.generation").mape() < 6.5);
}

TEST_CASE("elementwise operations against PyTorch kernels", "[validation][fidelity]") {
  const auto [a100, a100_llama] = check_elementwise(kA100);
  CHECK(a100.mape() < 7);
  CHECK(a100_llama.mape() < 6.5);
  const auto [h100, h100_llama] = check_elementwise(kH100);
  CHECK(h100.mape() < 9);
  CHECK(h100_llama.mape() < 7.5);
}

TEST_CASE("power of Llama-2-70B on A100", "[validation][fidelity]") {
  const std::string file = "serving/splitwise_perf_power.csv";
  if (!data_present(file)) return;
  const PowerParams power = part(kA100.part).power;
  // 68.98e9 parameters of 2 bytes; keys and values 80 layers * 8 heads * 128 * 2 * 2 bytes = 327,680 bytes a token.
  constexpr double kParameters = 68.98e9, kKvBytes = 327680;
  const Table table(kData + file);
  Errors prompt, whole_tp2, whole_tp4;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double prompt_tokens = table.number(i, "prompt_size"), batch = table.number(i, "batch_size");
    if (table.text(i, "hardware") != "a100-80gb" || table.text(i, "model") != "llama2-70b" ||
        table.number(i, "average_power") == 0)
      continue;
    if (prompt_tokens > 2048) continue;  // the window of the average is mostly idle there
    const double tp = table.number(i, "tensor_parallel"), tokens = table.number(i, "token_size");
    const double prompt_s = table.number(i, "prompt_time") * 1e-3, token_s = table.number(i, "token_time") * 1e-3;
    const double token_bytes = (2 * kParameters + batch * (prompt_tokens + tokens / 2) * kKvBytes) / tp;
    const double prompt_j =
        2 * kParameters * batch * prompt_tokens / tp * power.fp16_flop_j + 2 * kParameters / tp * power.memory_byte_j;
    const double token_j = 2 * kParameters * batch / tp * power.fp16_flop_j + token_bytes * power.memory_byte_j;
    const double steps = tokens - 1;
    const double busy_w = power.idle_w + power.active_w;
    const double mean_w = busy_w + (prompt_j + steps * token_j) / (prompt_s + steps * token_s);
    (tp == 2 ? whole_tp2 : whole_tp4).add(mean_w / power.tdp_w, table.number(i, "average_power"));
    if (batch * prompt_tokens >= 2048)
      prompt.add((busy_w + prompt_j / prompt_s) / power.tdp_w, table.number(i, "peak_power"));
  }
  print("splitwise_perf_power, mean of 2 GPUs", whole_tp2, {});
  print("splitwise_perf_power, mean of 4 GPUs", whole_tp4, {});
  print("splitwise_perf_power, highest sample, prompts", prompt, {});
  CHECK(whole_tp2.mape() < 6);
  CHECK(whole_tp4.mape() < 6);
}

TEST_CASE("no part draws more than its TDP", "[validation][fidelity]") {
  for (const Device& device : {kA100, kH100}) {
    const GpuParams gpu = part(device.part);
    const auto tiled = model("tiled", gpu);
    for (const std::int64_t m : {1, 64, 256, 1024, 8192}) {
      const Cost cost = tiled->cost({OpClass::ffn_up, DType::fp16, Gemm{m, 8192, 8192}});
      const double watts = gpu.power.idle_w + (cost.compute_energy_j + cost.memory_energy_j) / cost.time_s;
      INFO(device.part << " m " << m << ": " << watts << " W");
      CHECK(watts <= gpu.power.tdp_w * (1 + 1e-9));
      CHECK(watts > gpu.power.idle_w + gpu.power.active_w);
    }
  }
}

}  // namespace test_hw_fidelity
