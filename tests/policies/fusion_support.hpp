// What tests of fusion passes share: making a pass by name, and what must hold of any result.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "hw/cost/cost_model.hpp"
#include "models/graph/op_graph.hpp"
#include "policies/base/graph_pass.hpp"
#include "policies/fusion/marks.hpp"
#include "tests/models/random_graph.hpp"
#include "tests/policies/pass_run.hpp"

namespace orrery::policies::test {

inline models::OpGraph apply(const std::string& name, const models::OpGraph& graph, const PassContext& context,
                             const std::string& params = "{}", PassReport* report = nullptr) {
  PassReport own;
  return make_pass(name, params)->run(graph, context, report == nullptr ? own : *report);
}

/// Bytes that a graph moves under bindings.
inline std::int64_t moved(const models::OpGraph& graph, const models::Bindings& bindings) {
  return *models::total_work(graph, bindings).bytes().constant();
}
inline std::int64_t flops(const models::OpGraph& graph, const models::Bindings& bindings) {
  return *models::total_work(graph, bindings).flops().constant();
}

/// A GPU of round numbers: 1 PFLOP/s of products, 1 TB/s.
inline std::unique_ptr<hw::CostModel> round_gpu() {
  hw::GpuParams gpu;
  gpu.peak.fp32 = 1e14;
  gpu.peak.fp16 = 1e15;
  gpu.peak.bf16 = 1e15;
  gpu.memory_bandwidth = 1e12;
  return hw::make_cost_model("roofline", gpu);
}

/// What holds of every fusion: a sound graph of the same work, which never moves more or launches more.
inline void check_fusion(const models::OpGraph& before, const models::OpGraph& after,
                         std::initializer_list<models::Bindings> sizes) {
  const std::vector<std::string> faults = models::verify(after);
  CHECK(faults == std::vector<std::string>{});
  CHECK(count_launches(after) <= count_launches(before));
  REQUIRE(after.outputs().size() == before.outputs().size());
  for (std::size_t i = 0; i < before.outputs().size(); ++i) {
    CHECK(after.tensor(after.outputs()[i]).name == before.tensor(before.outputs()[i]).name);
    CHECK(after.tensor(after.outputs()[i]).shape == before.tensor(before.outputs()[i]).shape);
  }
  for (const models::Bindings& bindings : sizes) {
    CHECK(moved(after, bindings) <= moved(before, bindings));
    CHECK(flops(after, bindings) == flops(before, bindings));
  }
}

}  // namespace orrery::policies::test
