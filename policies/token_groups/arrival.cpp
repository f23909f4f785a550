// Tokens in the order in which they came.
#include "policies/token_groups/token_groups.hpp"

namespace orrery::policies {
namespace {

class Arrival final : public TokenGroups {
 public:
  std::vector<std::vector<std::size_t>> groups(const TokenGroupView& view) const override {
    std::vector<std::vector<std::size_t>> out(view.paths.size() / view.size);
    for (std::size_t i = 0; i < out.size() * view.size; ++i) out[i / view.size].push_back(i);
    return out;
  }
};

}  // namespace

void add_arrival_token_groups(TokenGroupsRegistry& registry) {
  registry.add<sim::NoParams>("arrival", "Tokens in the order of their arrival.",
                              [](const sim::NoParams&) { return std::make_unique<Arrival>(); });
}

}  // namespace orrery::policies
