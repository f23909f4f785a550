#include "sim/flow_network.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

namespace orrery::sim {

FlowNetwork::FlowNetwork(Engine& engine) : engine_(engine) {
  const auto ps = static_cast<std::uint64_t>(engine.scale().ps_per_tick());
  byte_bits_ = std::max(20, 50 - static_cast<int>(std::bit_width(ps - 1)));
}

std::int64_t FlowNetwork::to_units(double bytes_per_s) const {
  const double per_tick = bytes_per_s * 1e-12 * static_cast<double>(engine_.scale().ps_per_tick());
  const double units = std::nearbyint(std::ldexp(per_tick, byte_bits_));
  if (!(units >= 0) || units > static_cast<double>(MaxMinSolver::kMaxCapacity))
    throw std::invalid_argument("flow network: a bandwidth is negative or too large");
  return static_cast<std::int64_t>(units);
}

double FlowNetwork::to_bytes_per_s(std::int64_t units) const {
  return std::ldexp(static_cast<double>(units), -byte_bits_) /
         (1e-12 * static_cast<double>(engine_.scale().ps_per_tick()));
}

FlowNetwork::Link FlowNetwork::add_link(double bytes_per_s) {
  accounts_.emplace_back();
  return solver_.add_link(to_units(bytes_per_s));
}

FlowNetwork::Path FlowNetwork::add_path(std::span<const Link> links, Duration latency) {
  if (latency.ticks < 0) throw std::invalid_argument("flow network: a latency is negative");
  PathState path;
  path.latency = latency;
  const auto index = static_cast<Path>(paths_.size());
  if (!links.empty()) {
    path.solver = solver_.add_path(links);
    path_of_solver_.push_back(index);
  }
  paths_.push_back(path);
  return index;
}

// --- Starting, cancelling, moving -----------------------------------------------------------------------------------

std::uint32_t FlowNetwork::take_flow() {
  std::uint32_t slot = 0;
  if (!free_flows_.empty()) {
    slot = free_flows_.back();
    free_flows_.pop_back();
  } else {
    slot = static_cast<std::uint32_t>(flows_.size());
    // The last slot stays unused, so that no flow has the number that means none.
    if (slot + 1 >= 1U << kSlotBits) throw std::length_error("flow network: more than 2^24 - 1 flows are under way");
    flows_.emplace_back();
  }
  if (next_sequence_ >> (64 - kSlotBits) != 0) throw std::length_error("flow network: 2^40 flows have been started");
  flows_[slot].id = (next_sequence_++ << kSlotBits) | slot;
  ++active_;
  return slot;
}

void FlowNetwork::release(std::uint32_t flow) {
  flows_[flow].state = State::free;
  flows_[flow].id = ~0ULL;
  free_flows_.push_back(flow);
  --active_;
}

FlowId FlowNetwork::start(Path path, std::int64_t bytes, EventHandler& done, std::uint64_t payload, Duration delay) {
  if (bytes < 0 || delay.ticks < 0) throw std::invalid_argument("flow network: negative bytes or delay");
  if (path >= paths_.size()) throw std::invalid_argument("flow network: a flow over a path that is not there");
  const Time joins = after(paths_[path].latency, delay);
  const std::uint32_t slot = take_flow();
  Flow& flow = flows_[slot];
  flow.size = static_cast<Work>(bytes) << byte_bits_;
  flow.done = &done;
  flow.payload = payload;
  flow.path = path;
  wait(slot, joins);
  return {flow.id};
}

Time FlowNetwork::after(Duration latency, Duration delay) const {
  const TickScale& scale = engine_.scale();
  const std::int64_t left = kNever.ticks - engine_.now().ticks;
  if (latency.ticks >= left || delay.ticks >= left - latency.ticks) {
    (void)scale.duration(scale.seconds(engine_.now()) + scale.seconds(latency) + scale.seconds(delay));
    throw std::overflow_error("flow network: simulated time would end; set a coarser tick");
  }
  return engine_.now() + latency + delay;
}

// Flows started in a row with one latency come up as one event.
void FlowNetwork::wait(std::uint32_t index, Time tick) {
  if (last_batch_ == kNoRow || batches_[last_batch_].tick != tick) {
    if (free_batches_.empty()) {
      free_batches_.push_back(static_cast<std::uint32_t>(batches_.size()));
      batches_.emplace_back();
    }
    last_batch_ = free_batches_.back();
    free_batches_.pop_back();
    batches_[last_batch_] = {tick};
    engine_.schedule_at(tick, *this, kBatch + last_batch_);
  }
  Batch& batch = batches_[last_batch_];
  Flow& flow = flows_[index];
  flow.state = State::waiting;
  flow.batch = last_batch_;
  flow.heap = {kNoRow, kNoRow, batch.last};
  (batch.last == kNoRow ? batch.first : flows_[batch.last].heap.next) = index;
  batch.last = index;
}

const FlowNetwork::Flow* FlowNetwork::find(FlowId id) const {
  const std::uint64_t slot = id.value & ((1ULL << kSlotBits) - 1);
  return slot < flows_.size() && flows_[slot].id == id.value ? &flows_[slot] : nullptr;
}

FlowNetwork::Work FlowNetwork::service_of(const PathState& path) const {
  if (path.account == kNoRow) return 0;
  const Account& account = accounts_[path.account];
  return account.service + static_cast<Work>(account.rate) * (engine_.now() - account.at).ticks - path.base;
}

FlowNetwork::Work FlowNetwork::left_of(const Flow& flow) const {
  if (flow.state == State::waiting) return flow.size;
  return std::max<Work>(0,
                        flow.end - service_of(paths_[flow.path]));  // the tick of its end may carry more than is left
}

// Takes a flow out of where it waits or moves; what it has still to carry.
FlowNetwork::Work FlowNetwork::leave(std::uint32_t index) {
  Flow& flow = flows_[index];
  const Work left = left_of(flow);
  if (flow.state == State::waiting) {
    Batch& batch = batches_[flow.batch];
    (flow.heap.previous == kNoRow ? batch.first : flows_[flow.heap.previous].heap.next) = flow.heap.next;
    (flow.heap.next == kNoRow ? batch.last : flows_[flow.heap.next].heap.previous) = flow.heap.previous;
    return left;
  }
  PathState& path = paths_[flow.path];
  path.carried += flow.size - left;
  path.first = heap_erase(flows_, path.first, index);
  solver_.set_flows(path.solver, --path.flows);
  requeue(flow.path);
  request_solve();
  return left;
}

bool FlowNetwork::cancel(FlowId id) {
  const Flow* const flow = find(id);
  if (flow == nullptr) return false;
  const auto index = static_cast<std::uint32_t>(flow - flows_.data());
  leave(index);
  release(index);
  return true;
}

bool FlowNetwork::move(FlowId id, Path to) {
  const Flow* const flow = find(id);
  if (flow == nullptr) return false;
  if (to >= paths_.size()) throw std::invalid_argument("flow network: a flow over a path that is not there");
  const auto index = static_cast<std::uint32_t>(flow - flows_.data());
  Duration delay;  // what is left of it
  if (flow->state == State::waiting)
    delay = std::max(delay, batches_[flow->batch].tick - engine_.now() - paths_[flow->path].latency);
  const Time joins = after(paths_[to].latency, delay);  // may throw: before anything changes
  flows_[index].size = leave(index);
  flows_[index].path = to;
  wait(index, joins);
  return true;
}

void FlowNetwork::set_bandwidth(Link link, double bytes_per_s) {
  solver_.set_capacity(link, to_units(bytes_per_s));
  changed_ = true;
  request_solve();
}

// --- What happens in time --------------------------------------------------------------------------------------------

void FlowNetwork::on_event(std::uint64_t payload) {
  if (payload == kSolve) {
    solve_requested_ = false;
  } else if (payload == kWake) {
    wake_at_ = kNever;
    end_due_flows();
  } else {
    end_batch(static_cast<std::uint32_t>(payload - kBatch));
  }
  tell();
  if (!changed_) return;
  // Whoever else acts at this instant does so before rates are shared out; once is enough, as two who let each other go
  // first would never go.
  if (payload != kSolve && engine_.more_now()) {
    request_solve();
  } else {
    solve();
  }
}

void FlowNetwork::join(std::uint32_t index) {
  Flow& flow = flows_[index];
  PathState& path = paths_[flow.path];
  if (path.solver == kNoRow || flow.size == 0) {
    path.carried += flow.size;
    ended_.push_back({flow.id, flow.done, flow.payload});
    release(index);
    return;
  }
  if (path.flows == 0) unplaced_.push_back(flow.path);
  flow.end = flow.size + service_of(path);
  flow.state = State::moving;
  path.first = heap_insert(flows_, path.first, index);
  solver_.set_flows(path.solver, ++path.flows);
  requeue(flow.path);
  changed_ = true;
}

void FlowNetwork::end_batch(std::uint32_t index) {
  if (last_batch_ == index) last_batch_ = kNoRow;
  std::uint32_t flow = batches_[index].first;
  free_batches_.push_back(index);
  while (flow != kNoRow) {
    const std::uint32_t next = flows_[flow].heap.next;
    join(flow);
    flow = next;
  }
}

void FlowNetwork::end_due_flows() {
  while (!calendar_.empty() && calendar_.top_key() <= engine_.now().ticks) {
    const Link link = calendar_.top();
    calendar_.erase(link);
    Account& account = accounts_[link];
    advance(account);
    while (account.first != kNoRow && paths_[account.first].key <= account.service) {
      const Path path = account.first;
      account.first = heap_pop(paths_, account.first);
      end_path(path, account);
    }
    mark_stale(link);
    changed_ = true;
  }
}

// Ends the flows of a path that are due. The path has left the heap of its account.
void FlowNetwork::end_path(Path index, Account& account) {
  PathState& path = paths_[index];
  const Work service = account.service - path.base;
  while (path.first != kNoRow && flows_[path.first].end <= service) {
    const std::uint32_t flow = path.first;
    path.first = heap_pop(flows_, path.first);
    path.carried += flows_[flow].size;
    ended_.push_back({flows_[flow].id, flows_[flow].done, flows_[flow].payload});
    --path.flows;
    release(flow);
  }
  solver_.set_flows(path.solver, path.flows);
  if (path.flows == 0) {
    path.account = kNoRow;
    return;
  }
  path.key = flows_[path.first].end + path.base;
  account.first = heap_insert(paths_, account.first, index);
}

// Handlers may start, cancel or move flows; those that end here have left already.
void FlowNetwork::tell() {
  if (ended_.empty()) return;
  const auto earlier = [](const Ended& a, const Ended& b) { return a.id < b.id; };
  if (!std::is_sorted(ended_.begin(), ended_.end(), earlier)) std::sort(ended_.begin(), ended_.end(), earlier);
  telling_.swap(ended_);
  std::size_t told = 0;
  try {
    while (told < telling_.size()) {
      const Ended& ended = telling_[told++];
      ended.done->on_event(ended.payload);
    }
  } catch (...) {
    // The others are told, and rates shared out, when the run goes on.
    ended_.insert(ended_.begin(), telling_.begin() + static_cast<std::ptrdiff_t>(told), telling_.end());
    telling_.clear();
    request_solve();
    throw;
  }
  telling_.clear();
}

// --- Rates -----------------------------------------------------------------------------------------------------------

void FlowNetwork::request_solve() {
  changed_ = true;
  if (solve_requested_) return;
  solve_requested_ = true;
  engine_.schedule_at(engine_.now(), *this, kSolve);
}

void FlowNetwork::solve() {
  changed_ = false;
  const MaxMinSolver::Changes changes = solver_.solve();
  for (const Link link : changes.levels) {
    advance(accounts_[link]);  // at the rate that held until now
    accounts_[link].rate = solver_.level(link);
    mark_stale(link);
  }
  for (const MaxMinSolver::Path path : changes.placed) place(path_of_solver_[path]);
  for (const Path path : unplaced_)
    if (paths_[path].flows > 0) place(path);
  unplaced_.clear();
  for (const Link link : stale_) {
    accounts_[link].stale = false;
    update_end(link);
  }
  stale_.clear();
  const Time next = calendar_.empty() ? kNever : Time{calendar_.top_key()};
  if (next == wake_at_) return;
  engine_.cancel(wake_);
  wake_at_ = next;
  if (next != kNever) wake_ = engine_.schedule_at(next, *this, kWake);
}

inline void FlowNetwork::advance(Account& account) const {
  account.service += static_cast<Work>(account.rate) * (engine_.now() - account.at).ticks;
  account.at = engine_.now();
}

// Moves a path to the account of its bottleneck.
void FlowNetwork::place(Path index) {
  PathState& path = paths_[index];
  const Link to = solver_.bottleneck(path.solver);
  if (path.account == to) return;
  const Work service = service_of(path);
  if (path.account != kNoRow) {
    Account& from = accounts_[path.account];
    from.first = heap_erase(paths_, from.first, index);
    mark_stale(path.account);
  }
  Account& account = accounts_[to];
  advance(account);
  if (account.first == kNoRow) account.service = 0;  // keeps the numbers small
  path.account = to;
  path.base = account.service - service;
  path.key = flows_[path.first].end + path.base;
  account.first = heap_insert(paths_, account.first, index);
  mark_stale(to);
}

// Another flow of the path may be the next to end now.
void FlowNetwork::requeue(Path index) {
  PathState& path = paths_[index];
  if (path.account == kNoRow) return;
  Account& account = accounts_[path.account];
  if (path.flows > 0 && path.key == flows_[path.first].end + path.base) return;
  account.first = heap_erase(paths_, account.first, index);
  mark_stale(path.account);
  if (path.flows == 0) {
    path.account = kNoRow;
    return;
  }
  path.key = flows_[path.first].end + path.base;
  account.first = heap_insert(paths_, account.first, index);
}

void FlowNetwork::mark_stale(Link account) {
  if (accounts_[account].stale) return;
  accounts_[account].stale = true;
  stale_.push_back(account);
}

void FlowNetwork::update_end(Link link) {
  Account& account = accounts_[link];
  if (account.first == kNoRow || account.rate == 0) {
    if (calendar_.contains(link)) calendar_.erase(link);
    return;
  }
  advance(account);
  const Work left = std::max<Work>(0, paths_[account.first].key - account.service);
  if (left != memo_work_ || account.rate != memo_rate_) {
    memo_work_ = left;
    memo_rate_ = account.rate;
    memo_ticks_ = (left + account.rate - 1) / account.rate;
  }
  if (memo_ticks_ >= kNever.ticks - account.at.ticks) {
    const TickScale& scale = engine_.scale();
    (void)scale.duration(scale.seconds(account.at) + static_cast<double>(memo_ticks_) * scale.seconds(Duration{1}));
    throw std::overflow_error("flow network: simulated time would end; set a coarser tick");
  }
  calendar_.set(link, account.at.ticks + static_cast<std::int64_t>(memo_ticks_));
}

// --- Questions -------------------------------------------------------------------------------------------------------

std::vector<FlowId> FlowNetwork::flows_on(Link link) const {
  const auto crosses = [&](Path index) {
    const MaxMinSolver::Path path = paths_[index].solver;
    if (path == kNoRow) return false;
    for (std::size_t hop = 0; hop < solver_.hops(path); ++hop)
      if (solver_.link_of(path, hop) == link) return true;
    return false;
  };
  std::vector<FlowId> found;
  for (const Flow& flow : flows_)
    if (flow.state != State::free && crosses(flow.path)) found.push_back({flow.id});
  std::sort(found.begin(), found.end(), [](FlowId a, FlowId b) { return a.value < b.value; });
  return found;
}

FlowNetwork::Path FlowNetwork::path_of(FlowId id) const {
  const Flow* const flow = find(id);
  return flow == nullptr ? kNoRow : flow->path;
}

std::pair<FlowNetwork::Link, FlowNetwork::Link> FlowNetwork::ends_of(Path path) const {
  const MaxMinSolver::Path links = paths_.at(path).solver;
  if (links == kNoRow) throw std::invalid_argument("flow network: a path without links has no ends");
  return {solver_.link_of(links, 0), solver_.link_of(links, solver_.hops(links) - 1)};
}

double FlowNetwork::rate(FlowId id) const {
  const Flow* const flow = find(id);
  if (flow == nullptr || flow->state != State::moving) return 0;
  return to_bytes_per_s(solver_.rate(paths_[flow->path].solver));
}

double FlowNetwork::bytes_left(FlowId id) const {
  const Flow* const flow = find(id);
  return flow == nullptr ? 0 : std::ldexp(static_cast<double>(left_of(*flow)), -byte_bits_);
}

std::vector<double> FlowNetwork::carried() const {
  std::vector<Work> by_path;
  for (const PathState& path : paths_) by_path.push_back(path.carried);
  for (const Flow& flow : flows_)
    if (flow.state == State::moving) by_path[flow.path] += flow.size - left_of(flow);
  std::vector<Work> by_link(solver_.links());
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const MaxMinSolver::Path path = paths_[i].solver;
    if (path == kNoRow) continue;
    for (std::size_t hop = 0; hop < solver_.hops(path); ++hop) by_link[solver_.link_of(path, hop)] += by_path[i];
  }
  std::vector<double> bytes;
  for (const Work sum : by_link) bytes.push_back(std::ldexp(static_cast<double>(sum), -byte_bits_));
  return bytes;
}

std::size_t FlowNetwork::stalled() const {
  std::size_t count = 0;
  for (const PathState& path : paths_)
    if (path.flows > 0 && solver_.rate(path.solver) == 0) count += path.flows;
  return count;
}

}  // namespace orrery::sim
