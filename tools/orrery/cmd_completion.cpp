// `orrery completion SHELL`: what a shell runs to complete words; and `orrery complete`, hidden, which it asks.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "experiments/all/systems.hpp"
#include "experiments/base/catalog.hpp"
#include "experiments/base/component_node.hpp"
#include "experiments/base/study_file.hpp"
#include "sim/base/name_match.hpp"
#include "tools/orrery/command_line.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

using Words = std::vector<std::string>;

// Bash splits words at '=' and ':', so what stands before them in a candidate is taken off again.
constexpr const char* kBash = R"(# bash completion for orrery, made by `orrery completion bash`.
_orrery() {
  local line=${COMP_LINE:0:COMP_POINT} words word
  read -ra words <<<"$line"
  [[ $line == *" " ]] && words+=("")
  word=${words[-1]}
  mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" complete -- "${words[@]:1}" 2>/dev/null)
  local cut=${word%"${word##*[=:]}"}
  COMPREPLY=("${COMPREPLY[@]#"$cut"}")
  [[ ${COMPREPLY[0]} == *[=.] ]] && compopt -o nospace
}
complete -o bashdefault -o default -F _orrery orrery
)";
constexpr const char* kZsh = R"(#compdef orrery
# zsh completion for orrery, made by `orrery completion zsh`.
_orrery() {
  local -a found
  found=("${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then compadd -S '' -a found; else _files; fi
}
compdef _orrery orrery
)";
constexpr const char* kFish = R"(# fish completion for orrery, made by `orrery completion fish`.
complete -c orrery -a '(orrery complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
)";

/// "a.b.c=" of every value that a config may set, and of choices with each of their values.
void add_paths(const std::vector<sim::FieldInfo>& fields, const std::string& before, Words& out) {
  for (const sim::FieldInfo& field : fields) {
    const std::string path = before + field.name;
    if (!field.policies.empty()) {
      for (const sim::ComponentInfo& policy : field.policies) {
        out.push_back(fmt::format("{}.policy={}", path, policy.name));
        add_paths(policy.fields, fmt::format("{}.{}.", path, policy.name), out);
      }
    } else if (!field.nested.empty()) {
      add_paths(field.nested, path + (field.array ? ".0." : "."), out);
    } else if (!field.choices.empty()) {
      for (const std::string& choice : field.choices) out.push_back(fmt::format("{}={}", path, choice));
    } else if (field.type == "boolean") {
      out.push_back(path + "=true");
      out.push_back(path + "=false");
    } else {
      out.push_back(path + "=");
    }
  }
}

/// Up to the next '.' or '=' behind what is typed, so that a long list comes step by step.
Words next_steps(const Words& all, const std::string& typed) {
  Words steps;
  for (const std::string& path : all) {
    if (!path.starts_with(typed)) continue;
    const std::size_t end = path.find_first_of(".=", typed.size());
    steps.push_back(end == std::string::npos ? path : path.substr(0, end + 1));
  }
  std::ranges::sort(steps);
  const auto repeated = std::ranges::unique(steps);
  steps.erase(repeated.begin(), repeated.end());
  return steps;
}

Words set_paths(const Systems& systems, const std::string& typed) {
  Words all;
  for (const experiments::System& system : systems.all()) add_paths(system.fields(*systems.registries()), "", all);
  return next_steps(all, typed);
}

Words names_of_kind(const Systems& systems, const std::string& kind) {
  Words names;
  for (const sim::ComponentInfo& component : experiments::all_components(systems))
    if (kind.empty() || component.kind == kind) names.push_back(component.name);
  return names;
}

/// Values of an option whose values have names; `found` says whether it is one.
Words option_values(const Systems& systems, const std::string& option, bool& found) {
  found = true;
  if (option == "--parts" || option == "--part" || option == "--price") return experiments::part_names();
  if (option == "--batching") return names_of_kind(systems, "batching");
  if (option == "--dtypes") return {"bf16", "fp16", "fp32", "fp8", "int8"};
  if (option == "--objectives" || option == "--rank")
    return {"latency", "ttft", "throughput", "energy", "cost", "slo", "capacity"};
  found = false;
  return {};
}

Words argument_values(const Systems& systems, const std::string& command) {
  const Words kinds =
      command == "reproduce"                      ? Words{"claim"}
      : command == "evolve"                       ? Words{"evolve"}
      : command == "sweep" || command == "search" ? Words{"study"}
      : command == "run" || command == "capacity" || command == "slo" || command == "plans" || command == "train"
          ? Words{"experiment", ""}
          : Words{};
  Words names;
  for (const std::string& kind : kinds)
    for (const std::filesystem::path& file : experiments::shipped_studies(kind)) names.push_back(file.stem().string());
  if (command == "describe") names = names_of_kind(systems, "");
  if (command == "list")
    for (const sim::ComponentInfo& component : experiments::all_components(systems)) names.push_back(component.kind);
  if (command == "completion") names = {"bash", "zsh", "fish"};
  return names;
}

/// What may stand in the place of the last word.
Words candidates(const CLI::App& app, const Systems& systems, const Words& words) {
  const std::string typed = words.empty() ? "" : words.back();
  const Words before(words.begin(), words.empty() ? words.end() : words.end() - 1);
  const Reached reached = reached_command(app, before);
  Words all;
  bool named = false;
  const std::string last = before.empty() ? "" : before.back();
  if (last == "--set") return set_paths(systems, typed);
  if (Words values = option_values(systems, last, named); named) {
    const std::size_t comma = typed.rfind(',');  // of a list, what stands before the last comma stays
    const std::string kept = comma == std::string::npos ? "" : typed.substr(0, comma + 1);
    for (const std::string& value : values) all.push_back(kept + value);
  } else if (typed.starts_with("-")) {
    all = long_options(*reached.command);
  } else {
    for (const CLI::App* command : shown_commands(*reached.command)) all.push_back(command->get_name());
    if (all.empty()) all = argument_values(systems, reached.command->get_name());
  }
  std::erase_if(all, [&](const std::string& one) { return !one.starts_with(typed); });
  std::ranges::sort(all);
  const auto repeated = std::ranges::unique(all);
  all.erase(repeated.begin(), repeated.end());
  return all;
}

int print_script(const std::string& shell) {
  const std::vector<std::pair<std::string, const char*>> scripts{{"bash", kBash}, {"fish", kFish}, {"zsh", kZsh}};
  for (const auto& [name, script] : scripts)
    if (name == shell) {
      fmt::print("{}", script);
      return 0;
    }
  sim::throw_fault({"completion", ""}, fmt::format("unknown shell '{}'", shell),
                   sim::name_hint(shell, {"bash", "fish", "zsh"}));
}

}  // namespace

void add_completion(CLI::App& app, Action& action) {
  auto shell = std::make_shared<std::string>("bash");
  CLI::App* script = app.add_subcommand("completion", "Print the completion script for bash, zsh or fish");
  script->add_option("SHELL", *shell, "bash (default), zsh or fish");
  script->callback([shell, &action] { action = [shell](const Systems&) { return print_script(*shell); }; });
  auto words = std::make_shared<Words>();
  CLI::App* complete = app.add_subcommand("complete", "What may stand in the place of the last word")->group("");
  complete->add_option("WORD", *words, "Words of the line behind the program's name, after --");
  complete->callback([words, &app, &action] {
    action = [words, &app](const Systems& systems) {
      for (const std::string& one : candidates(app, systems, *words)) fmt::print("{}\n", one);
      return 0;
    };
  });
}

}  // namespace orrery::tools
