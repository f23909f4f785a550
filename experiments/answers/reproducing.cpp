#include "experiments/answers/reproducing.hpp"

namespace orrery::experiments {
namespace {

namespace fs = std::filesystem;

/// All faults of all studies at once.
std::vector<claims::ClaimStudy> read_studies(const ReproduceParams& params) {
  std::vector<fs::path> files;
  for (const std::string& argument : params.studies) files.push_back(claims::study_file(argument));
  if (files.empty()) files = shipped_studies("claim");
  if (files.empty())
    sim::throw_fault({(home_folder() / "experiments/studies").string(), ""},
                     "expected files of \"kind\": \"claim\", found none", "set ORRERY_HOME to the source tree");
  std::vector<claims::ClaimStudy> studies;
  sim::Faults faults;
  for (const fs::path& file : files) {
    try {
      studies.push_back(claims::read_study(file, params.set));
    } catch (const sim::ConfigError& error) {
      for (const sim::Fault& fault : error.faults()) faults.add(fault.where, fault.message, fault.hint);
    }
  }
  faults.throw_if_any();
  return studies;
}

claims::RunOptions run_options(const ReproduceParams& params, const Asking& asking) {
  return {.jobs = jobs_or_all(params.jobs),
          .progress =
              [&asking](std::int64_t done, std::int64_t total) {
                if (asking.progress) asking.progress({.done = done, .total = total, .what = "runs"});
              },
          .stop = asking.stop};
}

}  // namespace

std::ofstream writable_file(const fs::path& path) {
  std::error_code ignored;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), ignored);
  std::ofstream file(path, std::ios::binary);
  if (!file) sim::throw_fault({path.string(), ""}, "cannot be written");
  return file;
}

std::vector<claims::JudgedStudy> reproduce_claims(const Systems& systems, const ReproduceParams& params,
                                                  const Asking& asking) {
  std::vector<claims::ClaimStudy> studies = read_studies(params);
  std::ofstream points;
  if (!params.points.empty()) points = writable_file(params.points);
  auto results = claims::run_studies(systems, std::move(studies), run_options(params, asking));
  auto judged = claims::judge_studies(std::move(results));
  if (points.is_open()) claims::write_points(judged, points);
  return judged;
}

std::vector<claims::Sensitivity> claim_sensitivity(const Systems& systems, const ReproduceParams& params,
                                                   const Asking& asking) {
  return claims::sensitivities(systems, read_studies(params), run_options(params, asking));
}

}  // namespace orrery::experiments
