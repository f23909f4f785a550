#include "experiments/systems/serving/cluster/hand_overs.hpp"

#include "experiments/systems/serving/cluster/cluster.hpp"

namespace orrery::experiments {

void HandOvers::send(Request& request, policies::SeqId seq) {
  std::size_t slot = moving_.size();
  if (free_.empty()) {
    moving_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Moving& moving = moving_[slot];
  const auto from = static_cast<std::size_t>(request.replica);
  const Member& sender = fleet_[from];
  moving = {&request,
            from,
            sender.lanes[static_cast<std::size_t>(request.lane)].get(),
            seq,
            {},
            engine_.now(),
            request.ready_tokens * sender.kv_bytes_per_token};
  const std::size_t to = fleet_.route(request, fleet_.decodes());
  cluster_.withdraw(request);
  fleet_.place(request, to);
  cluster_.tell(request, RequestPhase::moving);
  moving.flow = transfers_.start(from, to, moving.bytes, *this, slot);
}

void HandOvers::on_event(std::uint64_t slot) {
  const Moving moving = moving_[slot];
  moving_[slot].request = nullptr;
  free_.push_back(slot);
  ++totals_.count;
  totals_.bytes += moving.bytes;
  totals_.ps += static_cast<__int128>((engine_.now() - moving.since).ticks) * engine_.scale().ps_per_tick();
  moving.lane->let_go(moving.seq);
  cluster_.touch(*moving.lane);
  cluster_.tell({.kind = ClusterEvent::Kind::transferred,
                 .replica = moving.request->replica,
                 .from = static_cast<std::int32_t>(moving.from),
                 .request = moving.request->id,
                 .bytes = moving.bytes,
                 .since = moving.since});
  cluster_.tell(*moving.request, RequestPhase::queued);
  cluster_.submit(*moving.request);
  cluster_.flush(true);  // transfers that end together are told one by one
}

void HandOvers::cancel(std::size_t replica) {
  for (std::size_t slot = 0; slot < moving_.size(); ++slot) {
    Moving& moving = moving_[slot];
    if (moving.request == nullptr) continue;
    Request& request = *moving.request;
    if (moving.from != replica && static_cast<std::size_t>(request.replica) != replica) continue;
    transfers_.cancel(moving.flow);
    moving.lane->let_go(moving.seq);
    cluster_.touch(*moving.lane);
    moving.request = nullptr;
    free_.push_back(slot);
    cluster_.restart(request);
  }
}

void HandOvers::finish() {
  for (const Moving& moving : moving_) {
    if (moving.request == nullptr) continue;
    transfers_.cancel(moving.flow);
    moving.lane->let_go(moving.seq);
    cluster_.request_ended(*moving.request, "unfinished", std::nullopt);
  }
}

}  // namespace orrery::experiments
