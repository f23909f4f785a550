// Answers of the core, asked for by name; and the options of questions that are runs.
#include "experiments/answers/answer.hpp"

#include "experiments/answers/run_questions.hpp"
#include "experiments/answers/validating.hpp"
#include "experiments/base/component_node.hpp"
#include "tools/python/bindings/watched.hpp"

namespace orrery::python {
namespace {

py::object ask(const experiments::Systems& systems, const std::string& name, const std::string& params,
               py::object tell) {
  Watched watched(std::move(tell));
  const sim::Node node = sim::parse_json(params, name);
  sim::Node told;
  watched.run([&] {
    told = experiments::answer(
        systems, name, node,
        {[&](const experiments::Progress& progress) { watched.report(progress); }, [&] { return watched.stopped(); }});
  });
  return to_python(told);
}

py::list questions() {
  py::list all;
  for (const experiments::RunQuestion& question : experiments::run_questions()) {
    py::list options;
    for (const experiments::RunOption& option : question.options) {
      py::dict one;
      one["name"] = option.name;
      one["path"] = option.path;
      one["form"] = std::string(sim::to_string(option.form));
      one["list"] = option.list;
      one["doc"] = option.doc;
      options.append(one);
    }
    py::dict one;
    one["name"] = question.name;
    one["doc"] = question.doc;
    one["system"] = question.system;
    one["options"] = options;
    all.append(one);
  }
  return all;
}

std::string option_assignment(const std::string& question, const std::string& name,
                              const std::vector<std::string>& texts) {
  const experiments::RunQuestion asked = experiments::run_question(question);
  for (const experiments::RunOption& option : asked.options)
    if (option.name == name) return experiments::option_assignment(option, texts);
  throw std::invalid_argument("no such option: " + name);
}

}  // namespace

void bind_answers(py::module_& module, const SharedKnown& known) {
  module.def(
      "ask",
      [known](const std::string& name, const std::string& params, py::object tell) {
        const experiments::Systems systems = known->systems;  // another thread may load a plugin meanwhile
        return ask(systems, name, params, std::move(tell));
      },
      py::arg("name"), py::arg("params"), py::arg("tell"));
  module.def("answers", [] {
    sim::Node all = sim::Node::array();
    for (const experiments::Answer& one : experiments::answers())
      all.push(experiments::component_node({"answer", one.name, one.doc, one.fields}));
    return to_python(all);
  });
  module.def(
      "validate_file",
      [known](const std::string& file, const std::vector<std::string>& assignments) {
        experiments::validate_file(known->systems, file, assignments);
      },
      py::arg("file"), py::arg("assignments"));
  module.def("questions", &questions);
  module.def("option_assignment", &option_assignment, py::arg("question"), py::arg("name"), py::arg("texts"));
}

}  // namespace orrery::python
