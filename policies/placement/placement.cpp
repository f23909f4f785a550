#include "policies/placement/placement.hpp"

namespace orrery::policies {

std::vector<std::string> op_kind_names() {
  std::vector<std::string> names;
  for (const models::OpInfo& row : models::op_kinds()) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (true) {
    const std::size_t end = text.find(separator);
    std::string_view piece = text.substr(0, end);
    while (!piece.empty() && piece.front() == ' ') piece.remove_prefix(1);
    while (!piece.empty() && piece.back() == ' ') piece.remove_suffix(1);
    pieces.emplace_back(piece);
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::vector<models::OpId> match_chain(const models::OpGraph& graph, models::OpId first,
                                      const std::vector<models::OpKind>& kinds) {
  std::vector<models::OpId> chain{first};
  if (graph.op(first).kind != kinds.front()) return {};
  while (chain.size() < kinds.size()) {
    const models::OpNode& last = graph.op(chain.back());
    if (last.outputs.empty() || graph.is_output(last.outputs.front())) return {};
    const std::span<const models::OpId> readers = graph.consumers(last.outputs.front());
    if (readers.size() != 1 || graph.op(readers.front()).kind != kinds[chain.size()]) return {};
    chain.push_back(readers.front());
  }
  return chain;
}

}  // namespace orrery::policies
