// AlgoPerf's score of training algorithms: how often, and by how much, one is near the fastest to a target.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace orrery::experiments::progress {

struct Submission {
  std::string name;
  std::vector<double> times_s;  ///< to the target of each workload; infinite: never reached
};

struct Scores {
  std::vector<std::string> workloads;
  std::vector<Submission> submissions;  ///< by score, highest first
  std::vector<double> scores;           ///< of each
};

/// Area under the performance profile from 1 to `most`, over most - 1: the mean over workloads of
/// max(0, (most - r) / (most - 1)), r the time over the fastest one's (Dahl et al., arXiv 2306.07179, section 4; most
/// is 4 there). A workload that nobody reached gives nobody anything.
Scores scores(std::vector<std::string> workloads, std::vector<Submission> submissions, double most);

/// Reads a table with submission, workload and median_time_to_target_s ("inf": never reached). Throws sim::ConfigError:
/// a time that is none or below 0, a pair twice, a pair that is missing.
Scores read_scores(const std::filesystem::path& table, double most);

}  // namespace orrery::experiments::progress
