// `orrery capacity`, `slo`, `plans` and `train`: runs with another question, each by its table of options
// (experiments/answers/run_questions.hpp, docs/explain/questions.md).
#include <memory>
#include <vector>

#include "experiments/answers/run_questions.hpp"
#include "experiments/base/study_file.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/run_command.hpp"

namespace orrery::tools {
namespace {

using experiments::OptionForm;
using experiments::RunOption;
using experiments::RunQuestion;

struct Asked {
  RunOptions run;
  std::vector<std::vector<std::string>> texts;  ///< what each option was given
  std::vector<char> enabled;
};

int ask(const Systems& systems, const RunQuestion& question, const Asked& asked) {
  RunOptions run = asked.run;
  std::string of;  // of the config; one that cannot be read is told when it is run
  sim::Origin where;
  if (run.config != "-") try {
      const sim::Node config = sim::read_config(experiments::named_document(run.config));
      const sim::Node* system = config.find("system");
      if (system != nullptr && system->is_string()) of = system->as_string(), where = system->origin();
    } catch (const sim::ConfigError&) {
    }
  run.before.push_back("system=" + question.answered_by(of, where));
  for (std::size_t i = 0; i < question.options.size(); ++i) {
    const bool given =
        question.options[i].form == OptionForm::enabled ? asked.enabled[i] != 0 : !asked.texts[i].empty();
    if (given) run.before.push_back(experiments::option_assignment(question.options[i], asked.texts[i]));
  }
  return run_config(systems, run);
}

void add_question_option(CLI::App& command, const RunOption& option, std::vector<std::string>& texts, char& enabled) {
  const std::string name = "--" + option.name;
  if (option.form == OptionForm::enabled) {
    command.add_flag_callback(
        name, [&enabled] { enabled = 1; }, option.doc);
  } else if (!option.list) {
    command.add_option_function<std::string>(
        name, [&texts](const std::string& text) { texts = {text}; }, option.doc);
  } else if (option.form == OptionForm::limit) {
    command.add_option(name, texts, option.doc)->allow_extra_args(false);
  } else {
    command.add_option(name, texts, option.doc)->delimiter(',');
  }
}

void add_question(CLI::App& app, Action& action, const char* name) {
  const RunQuestion question = experiments::run_question(name);
  auto asked = std::make_shared<Asked>();
  CLI::App* command = app.add_subcommand(question.name, question.doc);
  add_run_options(*command, asked->run);
  asked->texts.resize(question.options.size());
  asked->enabled.resize(question.options.size());
  for (std::size_t i = 0; i < question.options.size(); ++i)
    add_question_option(*command, question.options[i], asked->texts[i], asked->enabled[i]);
  command->callback([asked, question, &action] {
    action = [asked, question](const Systems& systems) { return ask(systems, question, *asked); };
  });
}

}  // namespace

void add_capacity(CLI::App& app, Action& action) {
  add_question(app, action, "capacity");
}
void add_goodput(CLI::App& app, Action& action) {
  add_question(app, action, "goodput");
}
void add_slo(CLI::App& app, Action& action) {
  add_question(app, action, "slo");
}
void add_plans(CLI::App& app, Action& action) {
  add_question(app, action, "plans");
}
void add_train(CLI::App& app, Action& action) {
  add_question(app, action, "train");
}

}  // namespace orrery::tools
