// Flows in time: bytes that move over paths of shared links, at max-min fair rates (sim/max_min.hpp).
//
// A flow waits for its path's latency (nothing is carried meanwhile), then shares every link of the path until its last
// byte has left; then its handler is told, flows that end in one event in the order in which they were started. Changes
// at one instant (starts, ends, bandwidths) are solved once, after the events that were already due at that instant.
//
// Work is counted in integers, 2^50 units a byte at a tick of 1 ps and fewer for coarser ticks, and rates in units a
// tick: bytes are conserved exactly, and results do not depend on the order in which links, paths or flows were added.
// An end is rounded up to the next tick.
//
// Accounts are kept by link, not by flow: all paths with one bottleneck have its level as their rate, so the service
// that a flow has had is that of its bottleneck since it joined. When a level changes, however many flows it serves,
// one account and one entry of the calendar change; a path moves between accounts only with its bottleneck.
//
// Left out: packets, windows, loss, the time a sender needs to find its fair share. A flow of 0 bytes, and one on a
// path without links, ends after the latency.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine.hpp"
#include "sim/indexed_heap.hpp"
#include "sim/max_min.hpp"
#include "sim/pairing_heap.hpp"

namespace orrery::sim {

/// Names a flow for ever; stale once it ended or was cancelled.
struct FlowId {
  std::uint64_t value = ~0ULL;
  friend bool operator==(FlowId, FlowId) = default;
};

class FlowNetwork final : private EventHandler {
 public:
  using Link = MaxMinSolver::Link;
  using Path = std::uint32_t;

  /// The engine must outlive the network, and the network its last event.
  explicit FlowNetwork(Engine& engine);
  FlowNetwork(const FlowNetwork&) = delete;
  FlowNetwork& operator=(const FlowNetwork&) = delete;
  Engine& engine() { return engine_; }
  Time now() const { return engine_.now(); }

  /// A link of `bytes_per_s` >= 0; 0 is a link that is down. Throws std::invalid_argument for negative or huge ones
  /// (over 4e15 bytes/s at ticks of 1 ps).
  Link add_link(double bytes_per_s);
  /// A path over `links` (all different; none for a path inside a node) with its whole latency. Throws
  /// std::invalid_argument for other links, or a latency below 0.
  Path add_path(std::span<const Link> links, Duration latency);

  /// Starts `bytes` (>= 0) over the path; `done.on_event(payload)` is called when they have arrived. `delay` (>= 0) is
  /// added to the latency. The handler must outlive the flow. Throws std::invalid_argument on negative arguments, and
  /// std::overflow_error, naming the coarser tick to set, where time would end.
  FlowId start(Path path, std::int64_t bytes, EventHandler& done, std::uint64_t payload = 0, Duration delay = {});
  /// Ends a flow without telling its handler; true if it was under way.
  bool cancel(FlowId flow);
  /// What a flow has not carried yet goes on over another path, after that one's latency and what is left of the flow's
  /// delay; true if it was under way. Throws as start().
  bool move(FlowId flow, Path path);
  /// From now on; flows over a link that is down keep what they have left and wait. Throws as add_link().
  void set_bandwidth(Link link, double bytes_per_s);

  /// Flows under way on a link, those that still wait for their latency included, in the order of their start.
  std::vector<FlowId> flows_on(Link link) const;
  /// kNoRow for a stale flow, which has rate 0 and nothing left.
  Path path_of(FlowId flow) const;
  /// First and last link of a path that has any.
  std::pair<Link, Link> ends_of(Path path) const;
  /// Bytes per second of a flow as of the last solve; 0 while it waits.
  double rate(FlowId flow) const;
  /// Bytes that a flow has still to carry.
  double bytes_left(FlowId flow) const;
  /// Sum of the rates on a link, bytes per second.
  double load(Link link) const { return to_bytes_per_s(solver_.load(link)); }
  /// Bytes that each link has carried so far.
  std::vector<double> carried() const;
  /// Flows under way; of these, flows that have no bandwidth at all as long as nothing changes.
  std::size_t active() const { return active_; }
  std::size_t stalled() const;
  const MaxMinSolver::Effort& effort() const { return solver_.effort(); }

 private:
  // Units of service. Signed: a path's account may start before that of its bottleneck.
  using Work = __int128;
  static constexpr std::uint64_t kSlotBits = 24;
  enum class State : std::uint8_t { free, waiting, moving };
  enum Event : std::uint64_t { kSolve, kWake, kBatch };  // kBatch + index

  struct Flow {
    Work size = 0;  // to be carried over this path
    Work end = 0;   // service of the path at which it ends
    EventHandler* done = nullptr;
    std::uint64_t payload = 0;
    std::uint64_t id = ~0ULL;
    HeapLinks heap;  // of the path's flows; while it waits, its neighbours in the batch
    Path path = kNoRow;
    std::uint32_t batch = kNoRow;
    State state = State::free;
    bool before(const Flow& other) const { return end < other.end; }
  };
  struct PathState {
    Work base = 0;     // service of the bottleneck less service of the path
    Work key = 0;      // service of the bottleneck at which the path's next flow ends
    Work carried = 0;  // by flows that have left
    Duration latency;
    std::uint32_t flows = 0;
    std::uint32_t first = kNoRow;        // flow that ends next: root of the heap
    MaxMinSolver::Path solver = kNoRow;  // kNoRow: no links
    Link account = kNoRow;               // its bottleneck
    HeapLinks heap;                      // of the account's paths
    bool before(const PathState& other) const { return key < other.key; }
  };
  struct Account {  // of a link: what each flow limited by it has been carried
    Work service = 0;
    Time at;
    std::int64_t rate = 0;
    std::uint32_t first = kNoRow;  // path whose flow ends next
    bool stale = false;            // its next end must be computed
  };
  struct Batch {  // flows whose latency is over at the same time
    Time tick;
    std::uint32_t first = kNoRow, last = kNoRow;
  };
  struct Ended {
    std::uint64_t id;
    EventHandler* done;
    std::uint64_t payload;
  };

  void on_event(std::uint64_t payload) override;
  std::int64_t to_units(double bytes_per_s) const;
  double to_bytes_per_s(std::int64_t units) const;
  const Flow* find(FlowId flow) const;
  Work service_of(const PathState& path) const;
  Work left_of(const Flow& flow) const;
  std::uint32_t take_flow();
  void release(std::uint32_t flow);
  Time after(Duration latency, Duration delay) const;
  void wait(std::uint32_t flow, Time until);
  void join(std::uint32_t flow);
  Work leave(std::uint32_t flow);
  void end_due_flows();
  void end_path(Path path, Account& account);
  void end_batch(std::uint32_t batch);
  void tell();
  void request_solve();
  void solve();
  void advance(Account& account) const;
  void place(Path path);
  void requeue(Path path);
  void mark_stale(Link account);
  void update_end(Link account);

  Engine& engine_;
  int byte_bits_;  // units of work in a byte, as a power of two
  MaxMinSolver solver_;
  std::vector<Path> path_of_solver_;
  std::vector<PathState> paths_;
  std::vector<Account> accounts_;  // by link
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_flows_;
  std::uint64_t next_sequence_ = 0;
  std::size_t active_ = 0;
  std::vector<Batch> batches_;
  std::vector<std::uint32_t> free_batches_;
  std::uint32_t last_batch_ = kNoRow;
  IndexedHeap calendar_;  // accounts by the tick of their next end
  std::vector<Link> stale_;
  std::vector<Path> unplaced_;  // paths that have flows and no account yet
  std::vector<Ended> ended_;
  std::vector<Ended> telling_;
  bool solve_requested_ = false;
  bool changed_ = false;
  EventId wake_;
  Time wake_at_ = kNever;
  // The last division: symmetric traffic asks the same over and over.
  Work memo_work_ = 0;
  std::int64_t memo_rate_ = 0;
  Work memo_ticks_ = 0;
};

}  // namespace orrery::sim
