// What an iteration of a replica costs: the seam between the replica's loop and the hardware.
//
// The replica describes a batch as segments: groups of tokens that pass the same layers with the same variant of the
// model. Costs come back as integers (picoseconds, picojoules, FLOPs, bytes), by operator class, so that whatever
// accumulates over a run is exact.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "hw/base/kernel.hpp"
#include "models/transformer/batch_dims.hpp"

namespace orrery::experiments {

using models::DecodeSums;
using models::PrefillSums;

/// New tokens of a request that follow each other, by their places in it.
struct TokenRun {
  std::int64_t request = 0, first = 0, count = 0;
  friend bool operator==(const TokenRun&, const TokenRun&) = default;
};

/// Tokens that pass layers [first, last) with one variant of the model.
struct Segment {
  std::int32_t first = 0, last = 0;
  std::int32_t variant = 0;
  std::int64_t tokens = 0;  ///< all new tokens, of chunks and decodes
  PrefillSums prefill;
  DecodeSums decode;
  std::vector<TokenRun> runs;  ///< all of the tokens, where router choices are replayed (RouterReplay); else none
  std::int32_t placement = 0;  ///< of the experts that these choose, of those that RouterReplay has
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// Tokens proposed before the iteration (policies/speculation): all sequences that get any take the same steps.
struct Drafting {
  std::int64_t sequences = 0, context_tokens = 0;  ///< decodes with proposals, and what they attend to
  std::int64_t steps = 0;                          ///< the longest proposal
  PrefillSums prompts;                             ///< of the iteration, which a draft model computes too
  bool any() const { return steps > 0 || prompts.sequences > 0; }
  friend constexpr bool operator==(const Drafting&, const Drafting&) = default;
};

struct BatchShape {
  std::int32_t mode = 0;
  std::int64_t sequences = 0;   ///< that have work in the iteration
  std::int64_t logit_rows = 0;  ///< positions whose next token is computed
  std::vector<Segment> segments;
  Drafting drafting;

  void clear() {
    drafting = {};
    sequences = 0;
    logit_rows = 0;
    segments.clear();
  }
  friend bool operator==(const BatchShape&, const BatchShape&) = default;
};

/// Bytes that a rank sends round the ring of tensor parallelism, and to ranks of other lanes.
struct SentBytes {
  std::int64_t ring = 0, exchange = 0;
  /// Adds what a cost sends so many times.
  template <class Cost>
  void add(const Cost& cost, std::int64_t times) {
    ring += cost.wire_bytes * times;
    exchange += cost.exchange_bytes * times;
  }
  void add(const SentBytes& other) {
    ring += other.ring;
    exchange += other.exchange;
  }
  bool any() const { return ring > 0 || exchange > 0; }
  friend bool operator==(const SentBytes&, const SentBytes&) = default;
};

/// What launches of one class cost.
struct KernelCost {
  hw::OpClass op{};
  std::int64_t time_ps = 0, flops = 0, dram_bytes = 0, launches = 0, wire_bytes = 0, exchange_bytes = 0, beside_ps = 0;
  std::int64_t compute_pj = 0, memory_pj = 0, network_pj = 0;
  std::int64_t energy_pj() const { return compute_pj + memory_pj + network_pj; }
};

/// Cost of one iteration, or of many when summed (S is then a 128-bit integer).
template <class S>
struct CostSums {
  S time_ps = 0;
  S flops = 0;
  S dram_bytes = 0;      ///< over all devices of the replica, without memory beside them
  S launches = 0;        ///< kernels and collectives that one device is given
  S wire_bytes = 0;      ///< that one device sends round the ring of its tensor-parallel ranks
  S exchange_bytes = 0;  ///< … and to ranks of other lanes
  S beside_ps = 0;       ///< of time_ps: what memory beside the device does
  S compute_pj = 0, memory_pj = 0, network_pj = 0;
  std::array<S, hw::kOpClasses> class_ps{};
  std::array<S, hw::kOpClasses> class_pj{};
  S energy_pj() const { return compute_pj + memory_pj + network_pj; }

  static constexpr std::size_t kFigures = 10 + 2 * hw::kOpClasses;
  /// each(figure) for all of them, always in the same order.
  template <class Each>
  void each(Each each) {
    walk(*this, each);
  }
  template <class Each>
  void each(Each each) const {
    walk(*this, each);
  }

  template <class T>
  void add(const CostSums<T>& other) {
    time_ps += other.time_ps;
    flops += other.flops;
    dram_bytes += other.dram_bytes;
    launches += other.launches;
    wire_bytes += other.wire_bytes;
    exchange_bytes += other.exchange_bytes;
    beside_ps += other.beside_ps;
    compute_pj += other.compute_pj;
    memory_pj += other.memory_pj;
    network_pj += other.network_pj;
    for (std::size_t i = 0; i < class_ps.size(); ++i) {
      class_ps[i] += other.class_ps[i];
      class_pj[i] += other.class_pj[i];
    }
  }
  /// Adds `times` times what launches of a class cost.
  void add_scaled(const KernelCost& other, std::int64_t times) {
    add_launches(other, times);
    class_ps[static_cast<std::size_t>(other.op)] += static_cast<S>(other.time_ps) * times;
    class_pj[static_cast<std::size_t>(other.op)] += static_cast<S>(other.energy_pj()) * times;
  }
  /// Adds `times` times another. A factor of 64 bits takes a third of the time of one of 128.
  template <class T, class M>
  void add_scaled(const CostSums<T>& other, M times) {
    add_launches(other, times);
    for (std::size_t i = 0; i < class_ps.size(); ++i) {
      class_ps[i] += static_cast<S>(other.class_ps[i]) * times;
      class_pj[i] += static_cast<S>(other.class_pj[i]) * times;
    }
  }

 private:
  template <class Self, class Each>
  static void walk(Self& self, Each& each) {
    for (auto figure : {&CostSums::time_ps, &CostSums::flops, &CostSums::dram_bytes, &CostSums::launches,
                        &CostSums::wire_bytes, &CostSums::exchange_bytes, &CostSums::beside_ps, &CostSums::compute_pj,
                        &CostSums::memory_pj, &CostSums::network_pj})
      each(self.*figure);
    for (auto& figure : self.class_ps) each(figure);
    for (auto& figure : self.class_pj) each(figure);
  }
  /// All but what goes by class.
  template <class Cost, class M>
  void add_launches(const Cost& other, M times) {
    time_ps += static_cast<S>(other.time_ps) * times;
    flops += static_cast<S>(other.flops) * times;
    dram_bytes += static_cast<S>(other.dram_bytes) * times;
    launches += static_cast<S>(other.launches) * times;
    wire_bytes += static_cast<S>(other.wire_bytes) * times;
    exchange_bytes += static_cast<S>(other.exchange_bytes) * times;
    beside_ps += static_cast<S>(other.beside_ps) * times;
    compute_pj += static_cast<S>(other.compute_pj) * times;
    memory_pj += static_cast<S>(other.memory_pj) * times;
    network_pj += static_cast<S>(other.network_pj) * times;
  }
};
using IterationCost = CostSums<std::int64_t>;
using RunCost = CostSums<__int128>;

/// A cost as uses of costs that a model keeps, launches beside these, and the rest of it. What is kept is a table's
/// entry of some 500 bytes, of which an iteration uses half a dozen: counting them is cheaper than adding them up.
struct CostParts {
  struct Use {
    std::size_t entry;  ///< of the model that gave it: the same cost for as long as that lives
    std::int64_t times;
  };
  struct Launched {
    KernelCost cost;
    std::int64_t times;
  };
  std::vector<Use> uses;
  std::vector<Launched> launched;
  IterationCost rest;
  bool has_rest = false;  ///< set by whoever writes `rest`; else that is zero

  void clear() {
    uses.clear();
    launched.clear();
    if (has_rest) rest = {};
    has_rest = false;
  }
  void add_rest(const IterationCost& cost, std::int64_t times) {
    rest.add_scaled(cost, times);
    has_rest = true;
  }
};

/// What an iteration keeps its host and its devices busy with, before it lasts as long as the slower of them. The i-th
/// iteration within a price's horizon has i times the steps more.
struct HostShare {
  std::int64_t calls = 0;       ///< launches: one a kernel, or one a captured graph
  std::int64_t exposed_ps = 0;  ///< of the host while the devices wait
  std::int64_t beside_ps = 0;   ///< of the host beside the devices, launching included
  std::int64_t device_ps = 0, device_step_ps = 0;
  std::int64_t queued2_ps = 0, queued2_step_ps = 0;  ///< twice the time from calls to their kernels, over all calls
  bool any() const { return exposed_ps > 0 || beside_ps > 0; }
};

/// Time and energy of an iteration, and how they go on while every decode's context grows by a token an iteration and
/// nothing else changes: the i-th such iteration (i from 0) lasts time_ps + i step_ps and takes energy_pj + i
/// step_energy_pj, exactly, for i < horizon.
struct IterationPrice {
  std::int64_t time_ps = 0, step_ps = 0;
  std::int64_t energy_pj = 0, step_energy_pj = 0;
  std::int64_t horizon = 1;
  std::int64_t launches = 0;                        ///< as in CostSums, the same for all of them,
  SentBytes sent;                                   ///< likewise
  std::int64_t draft_passes = 0, draft_layers = 0;  ///< of models that draft: passes, and layers in all of these
  HostShare host;                                   ///< once a host has lengthened it
};

class IterationModel;

/// What the iterations of one replica cost so far. A model may count how often each of its table entries was used and
/// multiply at the end; all ways give the same integers.
class CostLedger {
 public:
  virtual ~CostLedger() = default;
  /// Adds `iterations` iterations: that of `shape`, and those that follow it within its horizon.
  virtual void book(const BatchShape& shape, std::int64_t iterations) = 0;
  /// Adds a cost as it is.
  virtual void book_cost(const IterationCost& cost) = 0;
  virtual RunCost total() const = 0;
};

class IterationModel {
 public:
  virtual ~IterationModel() = default;
  /// Cost of one iteration; `out` comes zeroed. Equal shapes give equal costs.
  virtual void cost(const BatchShape& shape, IterationCost& out) = 0;
  /// The same in parts; `out` comes cleared. All of it is the rest where the model keeps no entries.
  virtual void parts(const BatchShape& shape, CostParts& out);
  /// An entry that parts() named. Throws std::logic_error if the model has none.
  virtual const IterationCost& entry(std::size_t index) const;
  /// The same in short, with what follows; agrees with cost() on every iteration within the horizon.
  virtual IterationPrice price(const BatchShape& shape);
  /// Whether the attention of decodes adds to the rest, whatever the rest is. A shape then costs what it would without
  /// its decodes' contexts, plus what these contexts add to a batch of decodes alone.
  virtual bool additive() const { return false; }
  /// An empty ledger for one replica.
  virtual std::unique_ptr<CostLedger> ledger();
  /// Time in ps to switch the replica between modes (weights re-sharded, say); modes start at 0.
  virtual std::int64_t switch_ps(std::int32_t /*from*/, std::int32_t /*to*/) const { return 0; }
};

/// `shape` after `iterations` iterations of nothing but decodes growing.
void advance(BatchShape& shape, std::int64_t iterations);
/// Every sum times numerator / denominator, rounded down.
IterationCost share(const IterationCost& cost, std::int64_t numerator, std::int64_t denominator);

}  // namespace orrery::experiments
