// Questions that are a run of another system: `orrery capacity`, `slo`, `plans`, `train`. Each is a table: an option of
// the command (a keyword in Python) and the value of the config that it sets. What is set this way gives way to
// --set and to overrides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/document.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments {

/// How the text of an option stands in a config.
enum class OptionForm : std::uint8_t {
  value,   ///< as it is given
  text,    ///< in quotes
  rate,    ///< "50" is fifty a second
  part,    ///< {"part": NAME}
  limit,   ///< METRIC.STATISTIC=TIME
  price,   ///< PART=PRICE, or a price alone for every part
  enabled  ///< no text: the option alone sets true
};

constexpr auto enum_names(OptionForm) {
  using enum OptionForm;
  return sim::names<OptionForm>({{"value", value},
                                 {"text", text},
                                 {"rate", rate},
                                 {"part", part},
                                 {"limit", limit},
                                 {"price", price},
                                 {"enabled", enabled}});
}

struct RunOption {
  std::string name;  ///< "slo-ttft"
  std::string path;  ///< "slo.ttft"
  OptionForm form = OptionForm::value;
  bool list = false;
  std::string doc;
};

struct RunQuestion {
  std::string name, doc, system;
  std::vector<RunOption> options;
  /// Systems of configs that it can be asked of; empty: any.
  std::vector<std::string> takes{};
  /// The system that answers for configs of another system than services: {"training", "training_plans"}.
  std::vector<std::pair<std::string, std::string>> others{};
  /// The one that answers for a config of that system, which stands at `where`; empty where the config names none.
  /// Throws sim::ConfigError for a system that it cannot be asked of.
  const std::string& answered_by(std::string_view config_system, const sim::Origin& where) const;
};

std::vector<RunQuestion> run_questions();
/// Throws std::logic_error for a name that is none.
RunQuestion run_question(const std::string& name);

/// "path=value" for what an option was given; several texts for a list. Throws sim::ConfigError for a limit that is
/// none.
std::string option_assignment(const RunOption& option, const std::vector<std::string>& texts);

}  // namespace orrery::experiments
