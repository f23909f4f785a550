// Which experts the tokens of a replica's sequences will choose, from the router trace that is replayed beside them.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/systems/serving/pricing/router_replay.hpp"
#include "experiments/systems/serving/replica/sequence_table.hpp"
#include "policies/batching/batching.hpp"

namespace orrery::experiments {

class ReplayedForesight final : public policies::ExpertForesight {
 public:
  ReplayedForesight(const RouterReplay& replay, const SequenceTable& sequences)
      : replay_(replay), sequences_(sequences) {}
  void chosen(policies::SeqId id, std::int64_t first, std::int64_t tokens,
              std::vector<std::uint16_t>& out) const override {
    out.clear();
    const std::int64_t request = sequences_.request(id).id;
    const traces::RouterTrace& trace = replay_.trace();
    for (std::int64_t place = first; place < first + tokens; ++place) {
      const std::int64_t token = replay_.token_of(request, place);
      out.push_back(trace.choices(0, token, token + 1).front());
    }
  }

 private:
  const RouterReplay& replay_;
  const SequenceTable& sequences_;
};

}  // namespace orrery::experiments
