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
      ExpressionName<ExpertScoreFacts>{
          {"age", U::requests,
           "Since it was last asked for, or loaded; all where it never was. Each expert of a token is one.", true},
          [](F f) { return f.history.age(f.expert); }},
      ExpressionName<ExpertScoreFacts>{{"expert", U::none, "Its number."},
                                       [](F f) { return static_cast<double>(f.expert); }},
      ExpressionName<ExpertScoreFacts>{{"experts", U::count, "That the layer has."}, [](F f) { return f.experts; }},
      ExpressionName<ExpertScoreFacts>{
          {"gap", U::requests, "Between the last two that asked for it; all of them where there were no two.", true},
          [](F f) { return f.history.gap(f.expert); }},
      ExpressionName<ExpertScoreFacts>{{"now", U::requests, "So far.", true}, [](F f) { return f.history.now(); }},
      ExpressionName<ExpertScoreFacts>{
          {"recent", U::none, "How often it was asked for, a request that lies `horizon` back counting 1/e.", true},
          [](F f) { return f.history.recent(f.expert); }},
      ExpressionName<ExpertScoreFacts>{
          {"recent_score", U::none, "What the router gave it, summed the same way; 0 where that is not known.", true},
          [](F f) { return f.history.recent_score(f.expert); }},
      ExpressionName<ExpertScoreFacts>{
          {"score", U::ratio, "What the router gave it last, of all experts' 1; 0 where that is not known.", true},
          [](F f) { return f.history.score(f.expert); }},
      ExpressionName<ExpertScoreFacts>{{"slots", U::count, "That stay."}, [](F f) { return f.slots; }},
      ExpressionName<ExpertScoreFacts>{{"times", U::count, "How often it was asked for so far.", true},
                                       [](F f) { return f.history.times(f.expert); }}};
};

using ExpertScore = Expression<ExpertScoreFacts>;

}  // namespace orrery::policies
