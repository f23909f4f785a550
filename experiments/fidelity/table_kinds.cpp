// The kinds of measured tables there are: one line each.
#include "experiments/fidelity/table_kind.hpp"

namespace orrery::experiments {

const std::vector<std::unique_ptr<TableKind>>& table_kinds() {
  static const std::vector<std::unique_ptr<TableKind>> kinds = [] {
    std::vector<std::unique_ptr<TableKind>> all;
    all.push_back(attention_tables());
    all.push_back(edge_attention_tables());
    all.push_back(gemm_tables());
    return all;
  }();
  return kinds;
}

}  // namespace orrery::experiments
