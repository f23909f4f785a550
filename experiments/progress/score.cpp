#include "experiments/progress/score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "sim/base/fault.hpp"
#include "sim/csv_table.hpp"

namespace orrery::experiments::progress {

Scores scores(std::vector<std::string> workloads, std::vector<Submission> submissions, double most) {
  std::vector<double> fastest(workloads.size(), std::numeric_limits<double>::infinity());
  for (const Submission& one : submissions)
    for (std::size_t w = 0; w < workloads.size(); ++w) fastest[w] = std::min(fastest[w], one.times_s[w]);
  const auto score = [&](const Submission& one) {
    double sum = 0;
    for (std::size_t w = 0; w < fastest.size(); ++w) {
      if (!std::isfinite(one.times_s[w])) continue;
      const double ratio = one.times_s[w] / fastest[w];
      sum += std::max(0.0, (most - ratio) / (most - 1));
    }
    return sum / static_cast<double>(fastest.size());
  };
  std::ranges::stable_sort(submissions, [&](const Submission& a, const Submission& b) { return score(a) > score(b); });
  Scores all{.workloads = std::move(workloads), .submissions = std::move(submissions)};
  for (const Submission& one : all.submissions) all.scores.push_back(score(one));
  return all;
}

Scores read_scores(const std::filesystem::path& path, double most) {
  const sim::CsvTable table = sim::CsvTable::read(path.parent_path(), path.filename().string());
  const auto place = [&](std::size_t row) { return sim::Origin{fmt::format("{}:row {}", path.string(), row + 1), ""}; };
  std::set<std::string> workloads;
  std::map<std::string, std::map<std::string, double>> times;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string& name = table.text(row, "submission");
    const std::string& workload = table.text(row, "workload");
    const std::string& text = table.text(row, "median_time_to_target_s");
    const double time =
        text == "inf" ? std::numeric_limits<double>::infinity() : table.number(row, "median_time_to_target_s");
    if (!(time > 0)) sim::throw_fault(place(row), fmt::format("expected a time above 0 or inf, got {}", text));
    workloads.insert(workload);
    if (!times[name].emplace(workload, time).second)
      sim::throw_fault(place(row), fmt::format("{} has {} twice", name, workload));
  }
  if (times.empty()) sim::throw_fault({path.string(), ""}, "expected a row");
  std::vector<Submission> all;
  for (const auto& [name, own] : times) {
    Submission one{.name = name};
    for (const std::string& workload : workloads) {
      const auto found = own.find(workload);
      if (found == own.end())
        sim::throw_fault({path.string(), ""}, fmt::format("{} lacks {}, which others have", name, workload));
      one.times_s.push_back(found->second);
    }
    all.push_back(std::move(one));
  }
  return scores({workloads.begin(), workloads.end()}, std::move(all), most);
}

}  // namespace orrery::experiments::progress
