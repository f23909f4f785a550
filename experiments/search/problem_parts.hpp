// Parts of test problems: parameters that need no file to come from, and the problems with limits, choices and
// conditions. For problems.cpp and problem_parts.cpp alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/search/problems.hpp"

namespace orrery::experiments::search::problem_parts {

Parameter real(std::string name, double low, double high);
Parameter integer(std::string name, double low, double high, bool log = false);
Parameter ordinal(std::string name, const std::vector<double>& values);
Parameter categorical(std::string name, const std::vector<std::string>& labels);
/// Adds a parameter; throws what is wrong with it.
void add_parameter(Space& space, Parameter parameter, std::string_view when = {});

/// The points that no other dominates, in order of the first of two objectives.
std::vector<std::vector<double>> not_dominated(std::vector<std::vector<double>> points);

Problem bnh();
Problem srn();
Problem tnk();
Problem mixed();
Problem conditional();
Problem bottleneck();
Problem rungs();
Problem trap();
Problem models();

}  // namespace orrery::experiments::search::problem_parts
