// The folder of a run: named after the config, written under a temporary name, renamed when whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

/// Hash of what decides a result: resolved config and the content of the input files, as 16 hex digits.
/// Throws sim::ConfigError if an input cannot be read.
std::string config_hash(const Experiment& experiment);

/// Digest of a file's content, as 16 hex digits. Throws sim::ConfigError if it cannot be read.
std::string content_digest(const std::filesystem::path& file);

/// Digest of the running program and its plugins, as 16 hex digits, so that results of another build are not taken for
/// this one's.
std::string build_id();

/// `runs/<stem>-<first 8 digits of the hash>` below `parent`.
std::filesystem::path default_run_folder(const std::filesystem::path& config, const std::string& hash,
                                         const std::filesystem::path& parent = "runs");

/// What stands at a run folder's place.
enum class FolderState : std::uint8_t { absent, same_run, other };
FolderState folder_state(const std::filesystem::path& folder, const std::string& hash);

/// Writes into a temporary sibling of `folder`; commit() renames it, so that a folder that exists is whole. Without
/// commit() nothing is left behind.
class RunFolder {
 public:
  /// Throws sim::ConfigError if `folder` exists and `force` is off, if it holds something other than a run (which even
  /// `force` does not replace), or if its parent cannot be created.
  RunFolder(std::filesystem::path folder, bool force);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& working() const { return working_; }
  void commit();

 private:
  std::filesystem::path folder_, working_;
  std::vector<std::filesystem::path> made_;  ///< parents that were not there, outermost first
  bool committed_ = false;
};

/// manifest.json: everything about a run that is not its result.
struct ManifestFacts {
  std::string hash;
  double wall_s = 0;
};
sim::Node manifest(const Experiment& experiment, const Outcome& outcome, const ManifestFacts& facts);

/// Writes text to a file. Throws sim::WriteFault if it cannot be written in full.
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace orrery::experiments
