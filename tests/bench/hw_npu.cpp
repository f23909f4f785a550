// NPU kernels priced a second: `gemm/npu`, over shapes from one row to a full prefill, on a TPU and on an Ascend.
#include <benchmark/benchmark.h>

#include <array>
#include <string>

#include "hw/npu/npu.hpp"
#include "hw/parts/catalog.hpp"

namespace {

using namespace orrery::hw;

void price(benchmark::State& state, const char* part) {
  const auto npu = read_part<NpuParams>(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/" + part + ".json").part;
  const auto model = npu_cost_model(npu);
  constexpr std::array<Gemm, 6> kShapes{{{1, 4096, 4096},
                                         {17, 5120, 13824},
                                         {64, 11008, 4096},
                                         {300, 768, 3072},
                                         {2048, 4096, 11008},
                                         {16384, 8192, 28672}}};
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(model->cost({OpClass::ffn_up, DType::bf16, kShapes[i++ % 6]}).time_s);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(price, tpu, "tpu-v4")->Name("gemm/npu");
BENCHMARK_CAPTURE(price, ascend, "ascend-910b2")->Name("gemm/npu/ascend");

}  // namespace
