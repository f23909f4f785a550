#include "sim/resources.hpp"

#include <catch2/catch.hpp>
#include <memory>

#include "sim/when.hpp"

using namespace orrery::sim;
