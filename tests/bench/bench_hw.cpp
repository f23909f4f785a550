// Benchmarks of hw/: one evaluation of a cost model. Budgets: 300 ns (`roofline`), 1 us (`tiled`), and 1 us
// more for what `learned` adds.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "hw/cost/cost_model.hpp"
#include "hw/parts/catalog.hpp"

using namespace orrery::hw;

namespace {

GpuParams part(const char* name) {
  return read_part<GpuParams>(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/" + name + ".json").part;
}

/// Products of a layer at batch sizes from one token to a long prompt.
std::vector<Kernel> products() {
  std::vector<Kernel> kernels;
  for (const std::int64_t m : {1, 7, 32, 100, 256, 513, 2048, 8192})
    for (const std::int64_t n : {1024, 4096, 6144, 28672})
      for (const std::int64_t k : {1024, 4096, 14336}) kernels.push_back({OpClass::ffn_up, DType::bf16, Gemm{m, n, k}});
  return kernels;
}

/// Prompts, chunks over a cache and decode batches of several models, latent attention among them.
std::vector<Kernel> attention() {
  std::vector<Kernel> kernels;
  for (const std::int64_t sequences : {1, 8, 64, 512})
    for (const std::int64_t tokens : {1, 100, 1000, 8000})
      for (const std::int64_t kv_heads : {1, 8, 32}) {
        const std::int64_t past = 512, keys = past + tokens;
        kernels.push_back({OpClass::attention_prefill, DType::bf16,
                           AttentionPrefill{sequences, sequences * tokens, sequences * keys,
                                            sequences * (tokens * past + tokens * (tokens + 1) / 2),
                                            sequences * ((tokens + 127) / 128), 32, kv_heads, 128}});
        kernels.push_back({OpClass::attention_decode, DType::bf16,
                           AttentionDecode{sequences, sequences * tokens, 32, kv_heads, 128}});
        kernels.push_back({OpClass::attention_decode, DType::bf16,
                           AttentionDecode{.sequences = sequences,
                                           .context_tokens = sequences * tokens,
                                           .heads = 128,
                                           .kv_heads = 1,
                                           .head_dim = 576,
                                           .value_dim = 512,
                                           .latent = true}});
      }
  return kernels;
}

/// Seconds of one evaluation are the time of an iteration over the items of it.
void evaluate(benchmark::State& state, const char* model_name, const std::vector<Kernel>& kernels) {
  CostModelRegistry registry("cost_model");
  register_cost_models(registry);
  orrery::sim::Faults faults;
  const auto choice = registry.prepare(model_name, nullptr, {}, faults);
  const Device device = *make_device("h100-sxm5-80gb", part("h100-sxm5-80gb"), choice, {}, faults);
  const auto model = choice.make(device);
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(model->cost(kernels[i]));
    i = i + 1 == kernels.size() ? 0 : i + 1;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("gemm/roofline", evaluate, "roofline", products());
  benchmark::RegisterBenchmark("gemm/tiled", evaluate, "tiled", products());
  benchmark::RegisterBenchmark("gemm/learned", evaluate, "learned", products());
  benchmark::RegisterBenchmark("attention/learned", evaluate, "learned", attention());
  benchmark::RegisterBenchmark("attention/roofline", evaluate, "roofline", attention());
  benchmark::RegisterBenchmark("attention/tiled", evaluate, "tiled", attention());
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
