#include "experiments/study/stored_point.hpp"

#include <fmt/format.h>

#include <fstream>

#include "experiments/study/explore.hpp"
#include "experiments/study/read_parts.hpp"
#include "experiments/study/selected.hpp"

namespace orrery::experiments::study {
namespace {

namespace fs = std::filesystem;

/// The texts of a fact that is a JSON list of them.
std::vector<std::string> texts_of(StoreReader& store, std::string_view name) {
  std::vector<std::string> all;
  const std::string text = store.fact(name);
  if (text.empty()) return all;
  const sim::Node list = sim::parse_json(text, store.file().string());
  for (const sim::Node& item : list.items())
    if (item.is_string()) all.push_back(item.as_string());
  return all;
}

fs::path source_of(StoreReader& store, const fs::path& given) {
  if (!given.empty()) return given;
  const std::string source = store.fact("source");
  if (source.empty())
    sim::throw_fault({store.file().string(), ""}, "the store does not say where its study is", "--study FILE names it");
  fs::path file = (store.file().parent_path() / source).lexically_normal();
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored))
    sim::throw_fault({file.string(), ""}, fmt::format("expected the study of {}, found none", store.file().string()),
                     "--study FILE says where it is now");
  return file;
}

/// As `sim::assign` reads it: a text that would be taken for something else ("16", "null") keeps its quotes.
std::string assigned_text(const Assignment& one) {
  if (!one.value.is_string()) return one.value.dump();
  sim::Node read = sim::Node::object();
  sim::assign(read, "value=" + one.value.as_string());
  const sim::Node& value = *read.find("value");
  return value.is_string() && value.as_string() == one.value.as_string() ? one.value.as_string() : one.value.dump();
}

}  // namespace

bool is_store(const fs::path& file) {
  constexpr std::string_view kMagic = "SQLite format 3";
  std::string head(kMagic.size(), '\0');
  return bool(std::ifstream(file, std::ios::binary).read(head.data(), std::streamsize(head.size()))) && head == kMagic;
}

Study study_of(const Systems& systems, StoreReader& store, const fs::path& given) {
  // Of a study that confirms another there never was a file: its document is the store's.
  const bool confirms = given.empty() && store.study().ends_with(kConfirmSuffix) && is_selection(store.file());
  const fs::path file =
      confirms ? (store.file().parent_path() / store.fact("source")).lexically_normal() : source_of(store, given);
  // The stored document has what was laid over the study itself; its base comes from the file, and what that inherits.
  sim::Node document = confirms ? sim::parse_json(store.fact("document"), file.string()) : sim::read_json(file);
  Study study = read_study(systems, std::move(document), file, texts_of(store, "set"));
  if (facts_of(study, store.fact("mode") == "search").hash != store.fact("hash"))
    sim::throw_fault(
        {file.string(), ""},
        fmt::format("expected the study that {} is of: it has changed since, or is another", store.file().string()),
        "--study FILE names the right one");
  return study;
}

std::unique_ptr<Experiment> read_point(const Systems& systems, const fs::path& file, std::int64_t id,
                                       const fs::path& study_file, const std::vector<std::string>& assignments) {
  StoreReader store(file);
  const Study study = study_of(systems, store, study_file);
  std::int64_t last = 0;
  std::optional<PointRow> found;
  store.for_each([&](const PointRow& row) {
    last = row.id;
    if (row.id == id) found = row;
  });
  if (!found)
    sim::throw_fault({file.string(), ""}, fmt::format("expected a point of the store, 1 to {}, got {}", last, id));
  sim::Node config =
      study.config(stored_point(study.space, store.columns(), *found), found->fidelity, study.seeds.first);
  for (const std::string& assignment : assignments) sim::assign(config, assignment);
  return read_experiment(systems, config);
}

std::vector<std::string> settings_of(const StoredTrials& stored, std::size_t trial) {
  std::vector<Assignment> all = stored.space.assignments(stored.trials[trial].proposal.point);
  if (stored.fidelity) all.push_back(at_fidelity(*stored.fidelity, stored.trials[trial].proposal.fidelity));
  if (stored.seed) all.push_back(*stored.seed);
  std::vector<std::string> texts;
  for (const Assignment& one : all) texts.push_back(one.path + "=" + assigned_text(one));
  return texts;
}

}  // namespace orrery::experiments::study
