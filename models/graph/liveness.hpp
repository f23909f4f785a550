// Liveness: when a graph's tensors hold memory, in the order in which its ops stand; the unit of time is one op.
//
// What holds memory is a storage: a tensor that an op makes, with all views of it. It is live from its op to the last
// op that reads it or a view, to the end if the graph gives it. Tensors that exist before the run (inputs, parameters,
// constants, state) are live throughout. An op that updates (attribute `updates`: for each output the input whose
// memory it takes; kv_write: its first input) makes no storage if nothing reads the old value later. An elementwise op
// (fused ones of nothing else too) may write where an operand of as many bytes was that dies there (unless its
// attribute `in_place` is 0). The inner tensors of a fused op never exist; a branch or loop needs the peak of its
// regions beside, once; an op whose attribute `scratch` says so holds as many bytes more while it runs. live(step) =
// sum of the storages live at it, an operand and what takes its place counted once. Left out: workspace of other
// kernels, allocator rounding (a planner's alignment), memory freed before an op ends.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/graph/op_graph.hpp"

namespace orrery::models {

/// A tensor that owns memory, and who needs it.
struct Storage {
  TensorId tensor{};
  std::optional<OpId> maker;  ///< none: it exists before the run
  std::vector<OpId> uses;     ///< ops that read it or a view of it (views included), each once, in order
  bool kept = false;          ///< an output of the graph, or a view of it is
};

/// Storages of a graph, in order of their tensors, without sizes. Must not outlive the graph.
class Storages {
 public:
  explicit Storages(const OpGraph& graph);
  const OpGraph& graph() const { return *graph_; }
  const std::vector<Storage>& all() const { return all_; }
  /// The storage that a tensor lies in.
  std::size_t of(TensorId tensor) const { return of_[index(tensor)]; }
  /// Storages that an op makes.
  const std::vector<std::size_t>& made_by(OpId op) const { return made_[index(op)]; }
  /// Storages that an op reads, each once.
  const std::vector<std::size_t>& read_by(OpId op) const { return read_[index(op)]; }
  /// Ops that must run before `op` although it reads nothing of them: they read what it overwrites.
  const std::vector<OpId>& before(OpId op) const { return before_[index(op)]; }
  /// Storages whose place the first output of an op may take if they die there: operands read element by element.
  std::vector<std::size_t> replaceable(OpId op) const;
  SymExpr bytes(std::size_t storage) const;

 private:
  const OpGraph* graph_;
  std::vector<Storage> all_;
  std::vector<std::size_t> of_;
  std::vector<std::vector<std::size_t>> made_, read_;
  std::vector<std::vector<OpId>> before_;
};

/// Bytes during the steps [begin, end).
struct Lifetime {
  std::optional<TensorId> tensor;  ///< none: what a branch or loop needs inside, or scratch
  std::int64_t begin = 0, end = 1, bytes = 0;
  std::optional<std::int32_t> in_place_of;  ///< index of the lifetime whose memory this one takes over
};

struct Liveness {
  std::int64_t persistent = 0;      ///< bytes that exist before the run
  std::vector<Lifetime> lifetimes;  ///< what is made, in order of begin
  std::vector<std::int64_t> live;   ///< of what is made, at every step
  std::int64_t peak = 0;            ///< the largest of them
  std::int64_t peak_step = 0;       ///< the first step that has it
};

/// For given sizes. Throws UnboundSymbol, std::overflow_error.
Liveness liveness(const OpGraph& graph, const Bindings& bindings, bool in_place = true);
Liveness liveness(const Storages& storages, const Bindings& bindings, bool in_place = true);

/// For any sizes: the bytes that each op allocates less those that it reads for the last time.
std::vector<SymExpr> memory_impacts(const OpGraph& graph);

}  // namespace orrery::models
