// The NPUs that the tests of this folder measure models on.
#pragma once

#include <string>

#include "hw/npu/npu_gemm.hpp"
#include "hw/parts/catalog.hpp"

namespace orrery::hw::test {

/// An NPU of the shipped catalog, e.g. "tpu-v4".
inline NpuParams npu(const std::string& name) {
  return read_part<NpuParams>(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/" + name + ".json").part;
}

inline constexpr const char* kNpus[] = {"tpu-v3",       "tpu-v4",       "tpu-v5e",       "ascend-910a",
                                        "ascend-910b1", "ascend-910b2", "ascend-910b2c", "ascend-910b3",
                                        "ascend-910b4", "neupims-npu",  "intel-npu4",    "apple-m4-ane"};

/// One core of a 16 x 16 x 16 cube at 1 GHz beside 1 TB/s, nothing lost and nothing fixed.
inline NpuParams simple_npu() {
  NpuParams npu;
  npu.cores = 1;
  npu.clock_hz = 1e9;
  npu.matrix = {.kind = MatrixKind::cube, .rows = 16, .columns = 16, .depth = 16, .rates = {.fp16 = 1}};
  npu.vector.bytes_per_cycle = 256;
  npu.scratch.l1 = 1 << 24;
  npu.memory_bytes = std::int64_t{1} << 34;
  npu.memory_bandwidth = 1e12;
  npu.memory_efficiency = 1;
  npu.power.tdp_w = 100;
  return npu;
}

}  // namespace orrery::hw::test
