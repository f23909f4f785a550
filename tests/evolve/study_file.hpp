// A small study for tests: the order of a queue on a device that is overloaded by a burst.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "experiments/evolve/evolution.hpp"
#include "tests/experiments/support.hpp"

namespace orrery::experiments::evolve::test {

using experiments::test::command;
using experiments::test::CommandResult;
using experiments::test::Scratch;

/// `extra` are further members, each with a leading comma.
inline std::string study_text(const std::string& extra = "") {
  return R"({"kind": "evolve", "version": 1, "title": "Test",
  "base": {"system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]},
    "model": {"config": "catalog:llama-2-7b"},
    "workload": {"generator": {"requests": 60, "arrivals": {"policy": "at_once"},
                 "lengths": {"policy": "uniform"}}, "predictor": {"sigma": 0}},
    "policies": {"batching": {"policy": "expression", "expression": {"max_sequences": 4}}}},
  "path": "policies.batching.expression.score",
  "objective": {"figure": "e2e_s.mean"},
  "training": {"seeds": [1, 2]}, "held_out": {"seeds": [11]})" +
         extra + "}";
}

inline EvolveStudy study(const std::string& extra = "", const std::vector<std::string>& assignments = {}) {
  const Scratch scratch;
  return read_evolve_study(scratch.write("study.json", study_text(extra)), assignments);
}

inline Tree tree(const EvolveStudy& study, const std::string& text) {
  Refusal refusal;
  const auto tree = read_candidate(study, text, refusal);
  INFO(refusal.why);
  REQUIRE(tree);
  return *tree;
}

}  // namespace orrery::experiments::evolve::test
