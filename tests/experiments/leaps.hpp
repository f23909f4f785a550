// A config run with leaps and without: both must write the same.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "experiments/base/experiment.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::test {

/// Runs a serving config (without its section `run`) both ways and compares every file; the summary of the leap. `run`
/// holds further members of that section, each with a leading comma.
inline sim::Node same_with_leaps(const std::string& config, const std::string& run = "") {
  const auto once = [&](const Scratch& scratch, bool leap) {
    const std::string text = config.substr(0, config.rfind('}')) +
                             R"(, "run": {"timeline": {"enabled": false}, "leap": )" + (leap ? "true" : "false") + run +
                             "}}";
    RunSink sink;
    sink.folder = scratch / "";
    sim::Node summary = read_experiment(test_systems(), sim::parse_json(text, "leaps"))->run(sink).summary;
    REQUIRE(summary.find("status")->as_string() == "ok");
    return summary;
  };
  const Scratch leap, step;
  sim::Node summary = once(leap, true), stepped = once(step, false);
  for (const char* file : {"requests.csv", "series.csv", "energy.csv", "distributions.csv"})
    CHECK(slurp(leap / file) == slurp(step / file));
  summary.erase("events");
  stepped.erase("events");
  CHECK(summary.dump() == stepped.dump());
  return summary;
}

/// Every request ended with all its tokens.
inline void conserved(const sim::Node& summary) {
  const auto number = [&](const char* path) { return summary.at(path)->as_number(); };
  CHECK(number("requests.completed") == number("requests.arrived"));
  CHECK(number("requests.unfinished") == 0);
  CHECK(number("tokens.processed") >= number("tokens.prompt") + number("tokens.output") - number("requests.completed"));
}

}  // namespace orrery::experiments::test
