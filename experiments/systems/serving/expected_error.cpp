#include "experiments/systems/serving/expected_error.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

std::string_view model_kind(bool experts) {
  return experts ? "experts" : "dense";
}

/// How much a group of runs is like a config; 0: of another part.
int likeness(const ServedKind& kind, const Node& run) {
  constexpr int kModel = 2, kEngine = 1, kPart = 1;  // the kind of model moves errors more than the engine does
  if (run.find("part")->as_string() != kind.part) return 0;
  const Node& policy = *run.find("policy");
  const bool engine = policy.is_string() && policy.as_string() == kind.batching;
  const bool model = run.find("model")->as_string() == model_kind(kind.experts);
  return kPart + (model ? kModel : 0) + (engine ? kEngine : 0);
}

/// "TTFT 12 % off (mean -5 %)".
std::string error_text(const char* figure, const Node& error) {
  const double mape = 100 * error.find("mape")->as_number(), bias = 100 * error.find("bias")->as_number();
  if (error.find("rows")->as_integer() == 1) return fmt::format("{} {:+.0f} %", figure, bias);
  return fmt::format("{} {:.0f} % off (mean {:+.0f} %)", figure, mape, bias);
}

std::string models_text(bool experts) {
  return experts ? "mixture-of-experts models" : "dense models";
}

std::string runs_text(const Node& run) {
  std::int64_t rows = 0;
  for (const char* figure : {"ttft", "tpot"})
    if (const Node& error = *run.find(figure); error.is_object())
      rows = std::max(rows, error.find("rows")->as_integer());
  return fmt::format("{} measurement{} of {} with {}", rows, rows == 1 ? "" : "s", run.find("engine")->as_string(),
                     models_text(run.find("model")->as_string() == "experts"));
}

}  // namespace

std::string expected_error(const ServedKind& kind, const Node& measured) {
  if (kind.part.empty()) return "nothing like it was measured: no serving run on unlike devices";
  const Node* best = nullptr;
  int most = 0;
  std::int64_t most_rows = 0;
  for (const Node& run : measured.find("runs")->items()) {
    const int like = likeness(kind, run);
    const Node& tpot = *run.find("tpot");
    const std::int64_t rows = tpot.is_object() ? tpot.find("rows")->as_integer() : 0;
    if (like == 0 || like < most || (like == most && rows <= most_rows)) continue;
    best = &run;
    most = like;
    most_rows = rows;
  }
  if (best == nullptr) return fmt::format("nothing like it was measured: no serving run on {}", kind.part);
  std::string text;
  for (const auto& [key, shown] : {std::pair{"ttft", "TTFT"}, std::pair{"tpot", "TPOT"}})
    if (const Node& error = *best->find(key); error.is_object())
      text += (text.empty() ? "" : ", ") + error_text(shown, error);
  text += fmt::format(" in {} on this part", runs_text(*best));
  if (best->find("model")->as_string() != model_kind(kind.experts))
    text += fmt::format("; none with {}", models_text(kind.experts));
  const Node& policy = *best->find("policy");
  if (!policy.is_string() || policy.as_string() != kind.batching) text += fmt::format("; none under {}", kind.batching);
  return text;
}

std::string expected_error(const ServedKind& kind) {
  const std::filesystem::path file = home_folder() / "experiments/measured/serving.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  return expected_error(kind, sim::read_json(file));
}

}  // namespace orrery::experiments
