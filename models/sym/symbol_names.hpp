// Who keeps the names of dimensions, which are compared by address (models/sym/expr.hpp).
//
// A plugin is a shared object with a copy of this code of its own. It has to take the names of the program that loads
// it, or equal symbols would differ: policies/plugin.hpp does so.
#pragma once

#include <string>
#include <string_view>

namespace orrery::models {

/// Gives the one copy of a name.
using InternName = const std::string* (*)(std::string_view);
InternName intern_name();
/// Before the first symbol is made.
void share_names(InternName intern);

}  // namespace orrery::models
