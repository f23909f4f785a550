#include "policies/placement/placement.hpp"

namespace orrery::policies {

void register_placement_passes(PassRegistry& registry) {
  add_byoc(registry);
  add_proteus(registry);
}

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

}  // namespace orrery::policies
