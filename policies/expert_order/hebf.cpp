// Hottest expert, bits first (D2MoE, card 19 of shared/systems/serving.md): each expert has a queue of its levels,
// the fewest bits first. Of the heads of all queues, the one that most tokens are computed with comes next.
#include "policies/expert_order/expert_order.hpp"

namespace orrery::policies {
namespace {

class Hebf final : public ExpertOrder {
 public:
  std::vector<std::size_t> order(std::span<const ExpertLoad> loads) const override {
    // Loads of an expert stand together: a queue is [head, end).
    std::vector<std::pair<std::size_t, std::size_t>> queues;
    for (std::size_t i = 0; i < loads.size(); ++i) {
      if (i == 0 || loads[i].expert != loads[i - 1].expert) queues.emplace_back(i, i);
      queues.back().second = i + 1;
    }
    std::vector<std::size_t> out;
    while (out.size() < loads.size()) {
      std::pair<std::size_t, std::size_t>* next = nullptr;
      for (auto& queue : queues)
        if (queue.first < queue.second && (next == nullptr || loads[queue.first].tokens > loads[next->first].tokens))
          next = &queue;
      out.push_back(next->first++);
    }
    return out;
  }
};

}  // namespace

void add_hebf_order(ExpertOrderRegistry& registry) {
  registry.add<sim::NoParams>(
      "hebf", "D2MoE: of each expert's lowest missing bit level, the one that most tokens use comes next.",
      [](const sim::NoParams&) { return std::make_unique<Hebf>(); });
}

}  // namespace orrery::policies
