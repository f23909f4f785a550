// How a policy's network reads an observation.
#pragma once

#include "experiments/rl/core/env.hpp"
#include "experiments/rl/core/network.hpp"

namespace orrery::experiments::rl {

/// How an agent's network reads its observation: whole, or once for each choice (AgentSpec::per_choice), whose own
/// entries and those that all share are the inputs, and whose one output is the choice's.
struct Reading {
  Index per_choice = 0, choices = 1, width = 0;  ///< width: of the observation

  explicit Reading(const AgentSpec& agent)
      : per_choice(static_cast<Index>(agent.per_choice)), width(static_cast<Index>(agent.observation.size())) {
    if (per_choice > 0) choices = static_cast<Index>(agent.action.choices.at(0));
  }
  Index shared() const { return width - choices * per_choice; }
  Index inputs() const { return per_choice > 0 ? per_choice + shared() : width; }
  /// A column for each choice of each column.
  MatrixXd apart(const MatrixXd& rows) const {
    if (per_choice == 0) return rows;
    MatrixXd out(inputs(), rows.cols() * choices);
    for (Index i = 0; i < rows.cols(); ++i)
      for (Index c = 0; c < choices; ++c) {
        out.col(i * choices + c).head(per_choice) = rows.col(i).segment(c * per_choice, per_choice);
        out.col(i * choices + c).tail(shared()) = rows.col(i).tail(shared());
      }
    return out;
  }
  /// The other way round; what is shared comes from the first choice.
  MatrixXd together(const MatrixXd& parts) const {
    if (per_choice == 0) return parts;
    MatrixXd out(width, parts.cols() / choices);
    for (Index i = 0; i < out.cols(); ++i) {
      for (Index c = 0; c < choices; ++c)
        out.col(i).segment(c * per_choice, per_choice) = parts.col(i * choices + c).head(per_choice);
      out.col(i).tail(shared()) = parts.col(i * choices).tail(shared());
    }
    return out;
  }
  /// Outputs of a network as a column a sample, and their derivatives the other way round: the same numbers.
  MatrixXd outputs(const MatrixXd& out) const {
    return per_choice == 0 ? out : MatrixXd(Eigen::Map<const MatrixXd>(out.data(), choices, out.cols() / choices));
  }
  MatrixXd derivatives(const MatrixXd& d) const {
    return per_choice == 0 ? d : MatrixXd(Eigen::Map<const MatrixXd>(d.data(), 1, d.size()));
  }
};

}  // namespace orrery::experiments::rl
