// What engines that compute experts on the host add to the prices of parts: fitted to few published rows of each
// (docs/explain/expert-offload.md), the rest of their rows is predicted.
#pragma once

#include <array>
#include <string_view>

namespace orrery::experiments::experts {

/// `efficiency`, `layer_gap_s` and `step_gap_s` as the sections of a config have them.
struct Engine {
  std::string_view name, doc;
  double efficiency = 1, layer_gap_s = 0, step_gap_s = 0;
};

/// kt-kernel: uniform rows of kt_expert_placement, 18.88 ms a token at 0 %, 15.33 at 50, 8.90 at 100. KTransformers
/// 0.2: one socket, 114.5 ms a token with 8 experts, 97.1 with 6.
inline constexpr std::array<Engine, 3> kEngines{
    Engine{"kt_kernel", "kt-kernel with SGLang, 2025", 0.425, 60.7e-6, 3.18e-3},
    Engine{"ktransformers_0_2", "KTransformers 0.2, early 2025", 0.612, 470e-6, 0},
    Engine{"ideal", "nothing but the parts' own times"}};

}  // namespace orrery::experiments::experts
