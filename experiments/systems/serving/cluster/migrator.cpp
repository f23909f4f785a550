#include "experiments/systems/serving/cluster/migrator.hpp"

#include <cmath>

#include "experiments/systems/serving/cluster/cluster.hpp"

namespace orrery::experiments {
namespace {

constexpr std::uint64_t kLook = ~std::uint64_t{0};

}  // namespace

void Migrator::poke() {
  if (looking_ || !policy_->active() || params_.bandwidth <= 0) return;
  looking_ = engine_.schedule_in(engine_.scale().duration(params_.interval_s), *this, kLook);
}

void Migrator::rest() {
  if (looking_) engine_.cancel(*looking_);
  looking_.reset();
  // Copies of what has ended are for nobody: time is not to go on for them.
  for (Move& move : moves_) {
    if (move.stage == Stage::free) continue;
    cancel(move);
    abort(move, MigrationAbort::ended);
  }
}

void Migrator::on_event(std::uint64_t payload) {
  if (payload == kLook) {
    look();
  } else if (Move& move = moves_[payload]; transfers_ != nullptr && !move.flow) {  // the handshake is over
    move.flow = transfers_->start(move.from, move.to, move.sending, *this, payload);
  } else if (move.stage == Stage::copying) {
    copied(move);
  } else if (move.stage == Stage::down) {
    commit(move);
  }
  cluster_.flush();
}

void Migrator::look() {
  looking_.reset();
  poke();
  // A source that failed comes to no boundary.
  for (Move& move : moves_)
    if (move.stage == Stage::leaving)
      if (const auto reason = obstacle(move)) abort(move, *reason);
  if (under_way_ > 0) return;
  std::vector<policies::LoadReport> loads;
  for (std::size_t i = 0; i < fleet_.size(); ++i)
    if (fleet_[i].lanes.size() == 1 && fleet_[i].role != Role::prefill)
      loads.push_back(fleet_.report(i));  // a pipeline's lanes share no cache
  moves_.clear();
  for (const policies::MigrationPair& pair : policy_->pair(loads))
    begin(static_cast<std::size_t>(loads[pair.source].replica),
          static_cast<std::size_t>(loads[pair.destination].replica));
}

/// Of a block on all devices of a replica.
std::int64_t Migrator::block_bytes(std::size_t i) {
  return fleet_[i].kv_bytes_per_token * replica(i).kv().growth_tokens();
}

void Migrator::use(KvWires wires) {
  transfers_ = std::make_unique<KvTransfers>(engine_, TransferParams{}, fleet_.size(), std::move(wires));
}

/// Copies so many bytes of a move; on_event() follows.
void Migrator::send(std::size_t number, std::int64_t bytes) {
  Move& move = moves_[number];
  move.bytes += bytes;
  move.sending = bytes;
  move.flow.reset();
  const double alone_s = transfers_ != nullptr ? 0 : static_cast<double>(bytes) / params_.bandwidth;
  move.arrival =
      engine_.schedule_at(engine_.now() + engine_.scale().duration(alone_s + params_.handshake_s), *this, number);
}

void Migrator::cancel(Move& move) {
  if (move.flow) {
    transfers_->cancel(*move.flow);
  } else {
    engine_.cancel(move.arrival);
  }
}

void Migrator::begin(std::size_t from, std::size_t to) {
  Replica& source = replica(from);
  const policies::BatchView view = source.view();
  const std::optional<policies::SeqId> victim = policy_->victim(view);
  if (!victim) return;
  Move move{.stage = Stage::copying, .from = from, .to = to};
  const std::int64_t tokens = view.kv_tokens(*victim);
  move.request = &source.sequences().request(*victim);
  move.id = move.request->id;
  move.preemptions = move.request->preemptions;
  move.sent_blocks = std::max<std::int64_t>(0, source.kv().blocks_for(tokens) - 1);
  // Room for what it has and a block more.
  Replica& destination = replica(to);
  if (destination.sequences().queued() > 0) return count(MigrationAbort::destination_queue);
  const auto held = destination.hold(tokens + source.kv().growth_tokens());
  if (!held) return count(MigrationAbort::destination_full);
  move.held = *held;
  ++under_way_;
  moves_.push_back(move);
  send(moves_.size() - 1, move.sent_blocks * block_bytes(from));
}

std::optional<MigrationAbort> Migrator::obstacle(const Move& move) {
  if (move.request == nullptr) return MigrationAbort::ended;
  if (move.request->preemptions != move.preemptions) return MigrationAbort::preempted;
  if (fleet_[move.to].pool == nullptr || !runs(replica(move.from).sequences(), *move.request, move.id))
    return MigrationAbort::closed;
  return std::nullopt;
}

void Migrator::copied(Move& move) {
  if (const auto reason = obstacle(move)) return abort(move, *reason);
  move.stage = Stage::leaving;
  replica(move.from).ask_boundary();
}

void Migrator::ended(const Request& request) {
  if (under_way_ == 0) return;
  for (Move& move : moves_)
    if (move.request == &request) move.request = nullptr;
}

void Migrator::boundary(std::size_t i) {
  for (Move& move : moves_)
    if (move.stage == Stage::leaving && move.from == i) leave(move);
}

void Migrator::leave(Move& move) {
  Replica& source = replica(move.from);
  if (const auto reason = obstacle(move)) return abort(move, *reason);
  const auto seq = decoding_sequence(source.sequences(), *move.request);
  if (!seq) return abort(move, MigrationAbort::preempted);
  move.seq = *seq;
  Request& request = source.take_out(*seq);
  cluster_.withdraw(request);
  cluster_.tell(request, RequestPhase::moving);
  const std::int64_t blocks = source.kv().blocks_for(request.ready_tokens) - move.sent_blocks;
  move.stage = Stage::down;
  move.since = engine_.now();
  send(static_cast<std::size_t>(&move - moves_.data()), std::max<std::int64_t>(0, blocks) * block_bytes(move.from));
}

void Migrator::commit(Move& move) {
  Replica& source = replica(move.from);
  source.let_go(move.seq);
  replica(move.to).drop_hold(move.held);
  ++totals_.completed;
  totals_.bytes += move.bytes;
  totals_.downtime_ps += static_cast<__int128>((engine_.now() - move.since).ticks) * engine_.scale().ps_per_tick();
  move.stage = Stage::free;
  --under_way_;
  Request& request = *move.request;
  cluster_.tell({.kind = ClusterEvent::Kind::migrated,
                 .replica = static_cast<std::int32_t>(move.to),
                 .from = static_cast<std::int32_t>(move.from),
                 .request = request.id,
                 .bytes = move.bytes,
                 .since = move.since});
  cluster_.tell(request, RequestPhase::queued);
  if (fleet_[move.to].pool != nullptr) {
    cluster_.deliver(request, move.to, true);
  } else {
    cluster_.reroute(request);
    replica(move.to).ask_turn();  // others there may have waited for what was set aside
  }
  source.ask_turn();
}

void Migrator::abort(Move& move, MigrationAbort reason) {
  count(reason);
  move.stage = Stage::free;
  --under_way_;
  Replica& destination = replica(move.to);
  destination.drop_hold(move.held);
  destination.ask_turn();
}

std::vector<Request*> Migrator::finish() {
  std::vector<Request*> between;
  for (Move& move : moves_) {
    if (move.stage == Stage::free) continue;
    if (move.stage == Stage::down) {
      replica(move.from).let_go(move.seq);
      between.push_back(move.request);
    }
    replica(move.to).drop_hold(move.held);
    move.stage = Stage::free;
  }
  under_way_ = 0;
  return between;
}

}  // namespace orrery::experiments
