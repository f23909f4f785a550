// How tensors lie on ranks, and what an op makes of that: the rules of tensor parallelism, op by op.
//
// A tensor is whole on every rank, divided along one axis, or a partial sum (each rank has a term). The rules are those
// that slapo_shard.cpp states; what would compute something else than the undivided graph is refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/op_graph.hpp"

namespace orrery::policies::slapo {

/// How a tensor lies on the ranks.
struct State {
  int axis = -1;
  bool partial = false;
  bool whole() const { return axis < 0 && !partial; }
  friend bool operator==(const State&, const State&) = default;
};

class StateRules {
 public:
  /// `graph` is the undivided one, and must outlive this.
  StateRules(const models::OpGraph& graph, std::int64_t ranks) : graph_(graph), ranks_(ranks) {}
  /// States of an op's outputs from those of its inputs. Throws models::GraphError with the reason.
  std::vector<State> outcome(const models::OpNode& op, const std::vector<State>& in) const;

 private:
  using OpNode = models::OpNode;
  [[noreturn]] void refuse(const OpNode& op, const std::string& why) const;
  int rank_of(models::TensorId id) const { return static_cast<int>(graph_.tensor(id).shape.size()); }
  State product_state(const OpNode& op, const std::vector<State>& in) const;
  State aligned_state(const OpNode& op, const std::vector<State>& in) const;
  State joined_state(const OpNode& op, const std::vector<State>& in) const;
  std::vector<State> norm_grad_states(const OpNode& op, const std::vector<State>& in) const;
  std::vector<State> head_states(const OpNode& op, const std::vector<State>& in) const;
  std::vector<State> step_states(const OpNode& op, const std::vector<State>& in) const;
  std::vector<State> routed_states(const OpNode& op, const std::vector<State>& in) const;
  State reduced_state(const OpNode& op, const State& in) const;
  State view_state(const OpNode& op, const State& in) const;

  const models::OpGraph& graph_;
  std::int64_t ranks_;
};

}  // namespace orrery::policies::slapo
