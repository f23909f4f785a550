// Scores of experts: the names that an expression over an expert that is in fast memory may use.
#pragma once

#include "policies/base/expression.hpp"

namespace orrery::policies {

struct ExpertScoreFacts {
  double now = 0;  ///< requests so far
  double experts = 1, slots = 1;
  double expert = 0;  ///< its number
  double age = 0;     ///< requests since it was last asked for, or loaded
  double gap = 0;     ///< requests between the last two times
  double times = 0, recent = 0;
  double score = 0, recent_score = 0;
};

template <>
struct ExpressionNames<ExpertScoreFacts> {
  using F = const ExpertScoreFacts&;
  using U = sim::Unit;
  static constexpr std::array names{
      ExpressionName<ExpertScoreFacts>{
          {"age", U::requests,
           "Since it was last asked for, or loaded; all where it never was. Each expert of a token is one.", true},
          [](F f) { return f.age; }},
      ExpressionName<ExpertScoreFacts>{{"expert", U::none, "Its number."}, [](F f) { return f.expert; }},
      ExpressionName<ExpertScoreFacts>{{"experts", U::count, "That the layer has."}, [](F f) { return f.experts; }},
      ExpressionName<ExpertScoreFacts>{
          {"gap", U::requests, "Between the last two that asked for it; all of them where there were no two.", true},
          [](F f) { return f.gap; }},
      ExpressionName<ExpertScoreFacts>{{"now", U::requests, "So far.", true}, [](F f) { return f.now; }},
      ExpressionName<ExpertScoreFacts>{
          {"recent", U::none, "How often it was asked for, a request that lies `horizon` back counting 1/e.", true},
          [](F f) { return f.recent; }},
      ExpressionName<ExpertScoreFacts>{
          {"recent_score", U::none, "What the router gave it, summed the same way; 0 where that is not known.", true},
          [](F f) { return f.recent_score; }},
      ExpressionName<ExpertScoreFacts>{
          {"score", U::ratio, "What the router gave it last, of all experts' 1; 0 where that is not known.", true},
          [](F f) { return f.score; }},
      ExpressionName<ExpertScoreFacts>{{"slots", U::count, "That stay."}, [](F f) { return f.slots; }},
      ExpressionName<ExpertScoreFacts>{{"times", U::count, "How often it was asked for so far.", true},
                                       [](F f) { return f.times; }}};
};

using ExpertScore = Expression<ExpertScoreFacts>;

}  // namespace orrery::policies
