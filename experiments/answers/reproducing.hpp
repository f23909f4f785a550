// Claim studies by name: read, run, judged (docs/papers/index.md).
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "experiments/answers/answer.hpp"
#include "experiments/claims/report.hpp"
#include "experiments/claims/sensitivity.hpp"

namespace orrery::experiments {

struct ReproduceParams {
  std::vector<std::string> studies, set;
  std::int64_t jobs = 0;
  std::string points;
  bool sensitivity = false;
  static constexpr auto fields() {
    using P = ReproduceParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("studies", &P::studies, Unit::text, sim::any_value(),
                   "Names of built-in studies, or files; empty: all built-in ones."),
        sim::field("set", &P::set, Unit::text, sim::any_value(), "Changes to every study, as for --set."),
        sim::field("jobs", &P::jobs, Unit::count, sim::between(0, 1024), "Parallel runs; 0: as many as cores."),
        sim::field("points", &P::points, Unit::path, sim::any_value(),
                   "CSV file to write, with the figures at every point; empty: none."),
        sim::field("sensitivity", &P::sensitivity,
                   "Whether to judge the claims while varying the parameters that studies name under `sensitivity`, "
                   "instead.")};
  }
};

/// As many threads as asked for; 0: as cores.
std::size_t jobs_or_all(std::int64_t jobs);

/// Opens a file to write, with the folders above it. Throws sim::ConfigError with its path where that cannot be.
std::ofstream writable_file(const std::filesystem::path& path);

/// Runs and judges; writes `points`. Throws sim::ConfigError with the faults of all studies, Stopped.
std::vector<claims::JudgedStudy> reproduce_claims(const Systems& systems, const ReproduceParams& params,
                                                  const Asking& asking);

/// Judges the claims at every value of the studies' parameters. Throws likewise.
std::vector<claims::Sensitivity> claim_sensitivity(const Systems& systems, const ReproduceParams& params,
                                                   const Asking& asking);

}  // namespace orrery::experiments
