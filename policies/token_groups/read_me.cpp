// Read-ME's batching (NeurIPS 2024, arXiv 2410.19123, algorithm 1): tokens wait in a queue for each expert, the one
// that their pre-gating router has named. A step is filled from the longest queue, then the next longest, until it is
// full.
#include <algorithm>
#include <map>

#include "policies/token_groups/token_groups.hpp"

namespace orrery::policies {
namespace {

class ReadMeGroups final : public TokenGroups {
 public:
  std::vector<std::vector<std::size_t>> groups(const TokenGroupView& view) const override {
    std::map<std::uint16_t, std::vector<std::size_t>> by_expert;
    for (std::size_t t = 0; t < view.first.size(); ++t) by_expert[view.first[t]].push_back(t);
    std::vector<const std::vector<std::size_t>*> queues;
    for (const auto& [expert, queue] : by_expert) queues.push_back(&queue);
    std::ranges::stable_sort(queues, std::ranges::greater{}, [](const auto* queue) { return queue->size(); });
    std::vector<std::size_t> group;
    for (const auto* queue : queues)
      for (const std::size_t t : *queue)
        if (group.size() < view.size) group.push_back(t);
    return {group};
  }
};

}  // namespace

void add_read_me_token_groups(TokenGroupsRegistry& registry) {
  registry.add<sim::NoParams>(
      "read_me", "Read-ME: a step is filled from the longest of the experts' queues, then from the next longest.",
      [](const sim::NoParams&) { return std::make_unique<ReadMeGroups>(); });
}

}  // namespace orrery::policies
