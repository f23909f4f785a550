// Scores of experts: the names that an expression over an expert that is in fast memory may use.
#pragma once

#include "policies/base/expression.hpp"
#include "policies/experts/expert_history.hpp"

namespace orrery::policies {

struct ExpertScoreFacts {
  const ExpertHistory& history;
  std::uint16_t expert;
  double experts, slots;  ///< of the layer
};

template <>
struct ExpressionNames<ExpertScoreFacts> {
  using F = const ExpertScoreFacts&;
  using U = sim::Unit;
  static constexpr std::array names{
      ExpressionName<ExpertScoreFacts>{{"age", U::requests,
                                        "Requests since the expert was last asked for, or loaded; all if it never was. "
                                        "Each expert of a token is one request.",
                                        true},
                                       [](F f) { return f.history.age(f.expert); }},
      ExpressionName<ExpertScoreFacts>{{"expert", U::none, "Number of the expert."},
                                       [](F f) { return static_cast<double>(f.expert); }},
      ExpressionName<ExpertScoreFacts>{{"experts", U::count, "Number of experts of the layer."},
                                       [](F f) { return f.experts; }},
      ExpressionName<ExpertScoreFacts>{
          {"gap", U::requests,
           "Requests between the last two that asked for the expert; all so far if there were no two.", true},
          [](F f) { return f.history.gap(f.expert); }},
      ExpressionName<ExpertScoreFacts>{{"now", U::requests, "Requests so far.", true},
                                       [](F f) { return f.history.now(); }},
      ExpressionName<ExpertScoreFacts>{
          {"recent", U::none,
           "How often the expert was asked for, where a request that lies `horizon` requests back counts 1/e.", true},
          [](F f) { return f.history.recent(f.expert); }},
      ExpressionName<ExpertScoreFacts>{
          {"recent_score", U::none,
           "Router scores of the expert, summed with the same decay as `recent`; 0 if unknown.", true},
          [](F f) { return f.history.recent_score(f.expert); }},
      ExpressionName<ExpertScoreFacts>{
          {"score", U::ratio, "Last router score of the expert, where those of all experts sum to 1; 0 if unknown.",
           true},
          [](F f) { return f.history.score(f.expert); }},
      ExpressionName<ExpertScoreFacts>{{"slots", U::count, "Number of slots for experts in fast memory."},
                                       [](F f) { return f.slots; }},
      ExpressionName<ExpertScoreFacts>{{"times", U::count, "How often the expert was asked for so far.", true},
                                       [](F f) { return f.history.times(f.expert); }}};
};

using ExpertScore = Expression<ExpertScoreFacts>;

}  // namespace orrery::policies
