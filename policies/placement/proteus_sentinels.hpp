// Sentinels: graphs made up so that whoever optimises a model's parts cannot tell which ones are real.
//
// Topology: a random DAG of 0.8 to 1.2 times a part's ops whose numbers of operands, distances between an op and its
// operands, and share of operands from outside are drawn from the part's own. Operators: ops of the whole model (with
// their attributes), by how often they occur, and `foreign` as many more kinds that the model does not have; an op is
// taken if its kind's shape rule accepts the operands (parameters are made to fit) or, where the rule says nothing, if
// the model has it with just these operands. If no op fits, the operand that disturbs is looked for among the tensors
// of the right shape, then dropped. Every sentinel passes verify().
// This stands for Proteus' GraphRNN (topologies) and its constraint solver (operators); MLSys 2024.
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph/graph_rewrite.hpp"
#include "sim/base/random.hpp"

namespace orrery::policies::proteus {

class SentinelMaker {
 public:
  /// `foreign`: share of the kinds drawn that the model does not have.
  SentinelMaker(const models::OpGraph& model, double foreign);
  /// A sentinel for `part`. Pure but for the draws.
  models::OpGraph make(const models::Subgraph& part, sim::RandomStream random) const;

 private:
  /// An op of the model: what it was, and the operands and results it had.
  struct Template {
    models::OpNode op;
    std::vector<models::Tensor> operands, results;
    std::vector<bool> bound;  ///< operand is a parameter or a constant
    std::size_t free = 0;     ///< operands that are not
  };
  friend class SentinelBuilder;

  std::vector<Template> templates_;
  std::vector<models::OpKind> foreign_unary_, foreign_binary_;
  double foreign_;
};

}  // namespace orrery::policies::proteus
