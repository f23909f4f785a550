// Answers: what commands work out beside runs, asked for by name with parameters, told as JSON.
//
// A command and the Python package ask the same function, so that they find the same and complain alike. A parameter
// struct states what may be asked (its field table gives the checks, the Python functions' docs and stubs).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

/// How to be told, and how to be stopped. Both may be empty, and are called by any thread.
struct Asking {
  std::function<void(const Progress&)> progress;
  std::function<bool()> stop;
};

struct Answer {
  std::string name, doc;
  std::vector<sim::FieldInfo> fields;
  std::function<sim::Node(const sim::Node& params, const Systems&, const Asking&)> give;
};

/// All answers there are, sorted by name.
std::vector<Answer> answers();

/// The answer to a question. Throws sim::ConfigError for parameters that are faulty, and as the answer does; Stopped.
sim::Node answer(const Systems& systems, const std::string& name, const sim::Node& params, const Asking& asking);

/// An answer whose parameters are a struct.
template <sim::Parameters P, class Give>
Answer make_answer(std::string name, std::string doc, Give give) {
  return {std::move(name), std::move(doc), sim::describe_params<P>(),
          [give](const sim::Node& node, const Systems& systems, const Asking& asking) {
            sim::Faults faults;
            const P params = sim::parse_params<P>(node, faults);
            faults.throw_if_any();
            return sim::Node(give(params, systems, asking));
          }};
}

}  // namespace orrery::experiments
