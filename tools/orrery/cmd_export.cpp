// `orrery best STORE…` and `orrery export STORE…`: what stores hold.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "experiments/study/results.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

namespace fs = std::filesystem;
namespace study = experiments::study;

struct ExportOptions {
  std::vector<std::string> files;
  std::string format = "csv", out;
  std::size_t top = 10;
  bool json = false;
};

std::vector<fs::path> paths(const ExportOptions& options) {
  return {options.files.begin(), options.files.end()};
}

/// Exit code 1 and a message where not all could be written.
int written(std::ostream& out, const std::string& where) {
  out.flush();
  if (out) return 0;
  fmt::print(stderr, "{}: could not be written in full\n", where);
  return 1;
}

int export_points(const ExportOptions& options) {
  const std::vector<fs::path> files = paths(options);
  std::ofstream file;
  if (!options.out.empty()) {
    file.open(options.out, std::ios::binary);
    if (!file)
      sim::throw_fault({options.out, ""},
                       fmt::format("expected a place that can be written: {}", std::strerror(errno)));
  }
  std::ostream& out = options.out.empty() ? std::cout : file;
  (options.format == "csv" ? study::export_csv : study::export_jsonl)(files, out);
  return written(out, options.out.empty() ? "stdout" : options.out);
}

int best(const ExportOptions& options) {
  const study::BestPoints found = study::best_points(paths(options), options.top);
  std::cout << (options.json ? study::best_json(found).dump(2) + "\n" : study::best_text(found));
  return written(std::cout, "stdout");
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand("export", "Print all points of stores of studies, side by side");
  command->add_option("STORE", options->files, "Stores that sweep and search wrote")->required();
  command->add_option("--format", options->format, "csv or jsonl")->check(CLI::IsMember({"csv", "jsonl"}));
  command->add_option("--out", options->out, "File (default stdout)");
  command->callback([options, &action] { action = [options](const Systems&) { return export_points(*options); }; });
}

void add_best(CLI::App& app, Action& action) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand("best", "Best points, or the Pareto front, of one or several stores together");
  command->add_option("STORE", options->files, "Stores that sweep and search wrote, with the same objectives")
      ->required();
  command->add_option("--top", options->top, "How many, of one objective")->check(CLI::PositiveNumber);
  command->add_flag("--json", options->json, "As JSON");
  command->callback([options, &action] { action = [options](const Systems&) { return best(*options); }; });
}

}  // namespace orrery::tools
