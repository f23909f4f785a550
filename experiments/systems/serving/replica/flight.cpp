#include "experiments/systems/serving/replica/flight.hpp"

#include <algorithm>

#include "experiments/systems/serving/replica/lane_scheduler.hpp"

namespace orrery::experiments {

Flight::Flight(std::size_t who, const FlightParts& on, const ReplicaParts& parts)
    : engine_(*parts.engine),
      instants_(*parts.instants),
      who_(who),
      on_(on),
      kv_(*parts.kv),
      pipe_(parts.pipe),
      scheduler_(parts.scheduler),
      wire_(parts.wire.get()) {}

void Flight::begin(std::int64_t iterations, const IterationPrice& price, std::int64_t extra_ps, bool decodes) {
  leap_.start = on_.time.at;
  leap_.ps_per_tick = on_.time.ps_per_tick;
  leap_.planned = iterations;
  leap_.done = 0;
  leap_.decodes = decodes;
  leap_.price = price;
  leap_.price.time_ps = std::max<std::int64_t>(1, price.time_ps);
  leap_.extra_ps = extra_ps;
  leap_.work_ps = pipe_ != nullptr ? pipe_->last_mean_ps() : 0;
  leap_.measured = 0;
  if (steady_takes_part()) {
    leap_.planned = on_.steady.begin(iterations);
    leap_.measured = on_.steady.measured();
  }
  leap_.fit_in_time(engine_.scale());
  leap_.grown = 1;
  on_.books.kv_used(kv_.used_bytes());
  under_way_ = true;
  ahead_ = 0;
  if (pipe_ != nullptr && pipe_->wired()) {
    leap_.open = true;
    return pipe_->enter(*this);
  }
  leap_.open = wire_ != nullptr && leap_.price.sent.any();
  if (leap_.open) return await_wire();
  instants_.ends_at(who_, leap_.time_of(leap_.planned));
}

/// What the iteration takes beside its transfers comes first, then they do, however long they take.
void Flight::await_wire() {
  const std::int64_t alone = wire_->alone_ps(leap_.price.sent);
  const std::int64_t before = std::max<std::int64_t>(0, leap_.price.time_ps + leap_.extra_ps - alone);
  wire_->send(leap_.start.plus(before, leap_.ps_per_tick), leap_.price.sent, *this);
}

void Flight::sent(ExactTime end) {
  const std::int64_t elapsed = end.minus(leap_.start, leap_.ps_per_tick);
  if (pipe_ == nullptr) {
    on_.books.waited(elapsed - leap_.price.time_ps - leap_.extra_ps);
  } else {
    on_.books.waited(pipe_->last_waited_ps());
    leap_.work_ps = pipe_->last_mean_ps();
    if (on_.books.watched()) on_.books.keep_stages(pipe_->last_times());
  }
  leap_.price.time_ps = std::max<std::int64_t>(1, elapsed - leap_.extra_ps);
  leap_.open = false;
  instants_.ends_at(who_, leap_.time_of(1));
}

sim::Time Flight::land() {
  complete(leap_.planned);
  under_way_ = false;
  return leap_.time_of(leap_.planned - 1).tick();
}

void Flight::sync() {
  // Stepping too: an iteration that ends at this very time is over, whether it has landed or not.
  if (under_way_) complete(leap_.over_at(instants_.now()));
}

std::optional<sim::Time> Flight::interrupt() {
  if (!under_way_ || leap_.planned == 1) return std::nullopt;
  const std::int64_t over = leap_.over_at(instants_.now());
  if (over == leap_.planned) return std::nullopt;  // it lands at this very time
  if (over > 0 && !instants_.begun(leap_.time_of(over))) {
    instants_.cancel(who_);
    leap_.planned = over;
    return land();
  }
  if (over + 1 < leap_.planned) end_with(over + 1);
  complete(over);
  return std::nullopt;
}

/// It was to be more of them.
void Flight::end_with(std::int64_t iterations) {
  leap_.planned = iterations;
  instants_.cancel(who_);
  instants_.ends_at(who_, leap_.time_of(iterations));
}

void Flight::take_blocks_ahead() {
  if (under_way_ && steady_takes_part() && leap_.planned > leap_.done) take_growth(leap_.done + 1);
}

/// Books iterations of the leap up to the `upto`-th.
void Flight::complete(std::int64_t upto) {
  const std::int64_t from = leap_.done;
  const std::int64_t steps = upto - from;
  const bool steady = steady_takes_part();
  if (steps <= 0) {  // nothing is over since, but the next may have begun
    if (steady && from < leap_.planned && instants_.begun(on_.time.at)) take_growth(from + 1);
    return;
  }
  if (steady) take_growth(from + 1);
  if (kv_.reports_split()) book_split(steps);
  on_.books.iterations(on_.batch.shape(), steps);
  if (const HostShare& host = leap_.price.host; host.any()) {
    HostOutcome& all = on_.books.counts().host;
    (on_.batch.counts().chunks > 0 ? all.prompt : all.decode).book(host, from, steps);
  }
  on_.books.busy(pipe_ != nullptr ? leap_.work_ps : leap_.elapsed(upto) - leap_.elapsed(from));
  on_.time.at = leap_.time_of(upto);
  if (on_.books.observed()) observe(from, upto);
  if (steady) {
    on_.steady.book_gaps(leap_, from, upto);
    // The next iteration takes its blocks when it begins; at this very time it may yet be another one.
    const bool begun = upto < leap_.planned && instants_.begun(on_.time.at);
    take_growth(begun ? upto + 1 : upto);
    on_.steady.step(steps, on_.time.at);
  }
  if (upto < leap_.planned) on_.batch.advance(steps);
  leap_.done = upto;
}

/// Takes the blocks of the leap's first `iterations` iterations, as far as they are not taken.
void Flight::take_growth(std::int64_t iterations) {
  if (iterations <= leap_.grown) return;
  // A tier is told of each block when it goes; without one they go together.
  const bool one_by_one = on_.copies.hands_on();
  const std::int64_t stride = one_by_one ? 1 : iterations - leap_.grown;
  bool any = false;
  for (; leap_.grown < iterations; leap_.grown += stride) {
    const std::int64_t clock = on_.steady.clock() + leap_.grown - leap_.done;
    const std::int64_t blocks = on_.steady.growth().blocks(clock, stride);
    if (blocks == 0) continue;
    if (one_by_one) on_.copies.tell_time(leap_.time_of(leap_.grown));
    kv_.take(blocks);
    any = true;
  }
  if (any) on_.books.kv_used(kv_.used_bytes());
}

/// How the cache divides in the next `steps` iterations of the leap.
void Flight::book_split(std::int64_t steps) {
  const SteadyDecodes& decodes = on_.steady;
  const TokenSums sums = scheduler_ != nullptr ? scheduler_->tokens() : token_sums(on_.sequences, decodes.clock());
  std::int64_t tokens = sums.cached;
  std::int64_t held = kv_.allocated_tokens();
  const std::int64_t grows = leap_.decodes ? decodes.branches() : 0;
  const BlockGrowth& growth = decodes.growth();
  for (std::int64_t i = 0; i < steps; ++i) {
    on_.books.counts().split.add(kv_.total_tokens(), held, tokens, sums.in_the_end);
    tokens += grows;
    if (growth.any()) held += growth.at(decodes.clock() + i + 1) * growth.block_tokens();
  }
}

void Flight::observe(std::int64_t from, std::int64_t upto) {
  const ExactTime start = leap_.time_of(from);
  const BatchCounts& counts = on_.batch.counts();
  const std::int64_t before = leap_.elapsed(from);
  IterationRun run;
  run.start = start.tick();
  run.start_ps = start.ps > 0 ? leap_.ps_per_tick - start.ps : 0;
  run.count = upto - from;
  run.time_ps = leap_.elapsed(from + 1) - before;
  run.step_ps = leap_.price.step_ps;
  run.energy_pj = leap_.energy_pj(from);
  run.step_energy_pj = leap_.price.step_energy_pj;
  run.prefill_tokens = counts.prefill_tokens;
  run.decodes = counts.decodes;
  run.chunks = counts.chunks;
  run.shape = &on_.batch.shape();
  run.model = &on_.books.model();
  run.running = std::ssize(on_.sequences.running());
  // Who came during the last of the iterations waits; in those before, the queue was as it had been.
  run.waiting = on_.sequences.waiting_before(on_.time.at.tick());
  run.kv_used_bytes = kv_.used_bytes();
  if (const BlockGrowth& growth = on_.steady.growth(); run.count > 1 && growth.any()) {
    run.kv_growth = growth.taken();
    run.kv_period = growth.block_tokens();
    run.kv_phase = growth.residue(on_.steady.clock());
    run.kv_block_bytes = kv_.block_bytes();
  }
  on_.books.tell_iterations(run);
}

std::int64_t Flight::cut() {
  if (!under_way_) return ahead_;
  sync();
  if (leap_.open) {  // it has lasted for so long, and would go on
    const std::int64_t elapsed = instants_.now().minus(leap_.start, leap_.ps_per_tick);
    if (pipe_ == nullptr) on_.books.waited(elapsed - leap_.price.time_ps - leap_.extra_ps);
    leap_.price.time_ps = std::max(leap_.price.time_ps, elapsed + 1 - leap_.extra_ps);
    leap_.open = false;
    if (wire_ != nullptr) wire_->forget();
  }
  book_part();
  instants_.cancel(who_);
  on_.time.at = instants_.now();
  under_way_ = false;
  // Blocks of the cut iteration were taken for steady decodes already.
  return ahead_ = leap_.decodes ? leap_.grown - leap_.done : 0;
}

/// The part of the iteration under way that is over.
void Flight::book_part() {
  const std::int64_t begun = leap_.done;
  const ExactTime start = leap_.time_of(begun);
  const std::int64_t length = leap_.elapsed(begun + 1) - leap_.elapsed(begun);
  const ExactTime now = instants_.now();
  if (begun == leap_.planned || start >= now) return;
  const std::int64_t elapsed = now.minus(start, leap_.ps_per_tick);
  const auto part = [&](std::int64_t of) {
    return static_cast<std::int64_t>(static_cast<__int128>(of) * elapsed / length);
  };
  on_.books.cut(on_.batch.shape(), elapsed, length);
  on_.books.busy(pipe_ != nullptr ? part(leap_.work_ps) : elapsed);
  if (!on_.books.observed()) return;
  const BatchCounts& counts = on_.batch.counts();
  IterationRun run{.start = start.tick(),
                   .start_ps = start.ps > 0 ? leap_.ps_per_tick - start.ps : 0,
                   .time_ps = elapsed,
                   .energy_pj = part(leap_.energy_pj(begun)),
                   .prefill_tokens = counts.prefill_tokens,
                   .decodes = counts.decodes,
                   .running = std::ssize(on_.sequences.running()),
                   .waiting = on_.sequences.waiting_before(engine_.now()),
                   .kv_used_bytes = kv_.used_bytes(),
                   .chunks = counts.chunks};
  on_.books.tell_iterations(run);
}

}  // namespace orrery::experiments
