// Element types as values of a parameter.
#pragma once

#include <array>
#include <utility>

#include "models/graph/op_graph.hpp"
#include "sim/base/params.hpp"

namespace orrery::sim {
/// The floating types that a model can be kept in.
template <>
struct EnumNames<models::ElementType> {
  static constexpr std::array<std::pair<std::string_view, models::ElementType>, 4> names{
      {{"fp32", models::ElementType::fp32},
       {"fp16", models::ElementType::fp16},
       {"bf16", models::ElementType::bf16},
       {"fp8", models::ElementType::fp8}}};
};
}  // namespace orrery::sim
