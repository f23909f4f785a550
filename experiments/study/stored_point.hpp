// A point of a store as an experiment again, so that `orrery run STORE --point N` repeats it.
//
// A store says where its study's file was (from the store's folder) and what was laid over its base; the study is read
// again from there, and must be the very one that the store is of. So the config is that of the point's (first) run.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/study/trials.hpp"

namespace orrery::experiments::study {

/// Whether a file begins as SQLite's do.
bool is_store(const std::filesystem::path& file);

/// The study that a store is of, from `file` or, if that is empty, from where it was. Throws sim::ConfigError if there
/// is no study, or if it has changed since.
Study study_of(const Systems& systems, StoreReader& store, const std::filesystem::path& file = {});

/// The experiment of point `id`, with `assignments` laid over its config; of several seeds the first. Throws
/// sim::ConfigError as study_of does, for a point that the store does not have, and for a config that cannot be read.
std::unique_ptr<Experiment> read_point(const Systems& systems, const std::filesystem::path& store, std::int64_t id,
                                       const std::filesystem::path& study_file,
                                       const std::vector<std::string>& assignments);

/// What a trial sets in its study's base, as "path=value", in the order in which it is laid over it; what comes later
/// wins. Needs no file but the store.
std::vector<std::string> settings_of(const StoredTrials& stored, std::size_t trial);

}  // namespace orrery::experiments::study
