#include "experiments/base/run_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <stdexcept>

#include "policies/plugin_host.hpp"
#include "sim/base/home.hpp"
#include "sim/base/write_fault.hpp"

namespace orrery::experiments {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRunFormat = "orrery run 1";  ///< tools/python/orrery_plot/formats.py reads it

std::uint64_t file_digest(const fs::path& path, std::uint64_t hash = 0xcbf29ce484222325ULL) {
  std::ifstream file(path, std::ios::binary);
  if (!file || fs::is_directory(path)) sim::throw_fault({path.string(), ""}, "expected a readable file, found none");
  std::array<char, 1 << 16> buffer;
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0)
    hash = sim::hash_text({buffer.data(), static_cast<std::size_t>(file.gcount())}, hash);
  return hash;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "unknown";
}

/// Removes what runs into a folder of this name left that were killed: their working folders, ".NAME.PID", and the
/// folder that they were replacing, ".NAME.PID.old", which is put back if none stands in its place.
void remove_unfinished(const fs::path& parent, const std::string& name) {
  std::error_code ignored;
  const std::string front = "." + name + ".";
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored))
    if (entry.path().filename().string().starts_with(front)) left.push_back(entry.path());
  for (const fs::path& path : left) {
    const std::string rest = path.filename().string().substr(front.size());
    pid_t process = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), process);
    const std::string_view behind(end, static_cast<std::size_t>(rest.data() + rest.size() - end));
    if (error != std::errc() || (!behind.empty() && behind != ".old")) continue;
    if (process <= 0 || kill(process, 0) == 0 || errno != ESRCH) continue;  // it is at work
    if (!behind.empty() && !fs::exists(parent / name, ignored))
      fs::rename(path, parent / name, ignored);
    else
      fs::remove_all(path, ignored);
  }
}

}  // namespace

std::string config_hash(const Experiment& experiment) {
  std::uint64_t hash = sim::hash_text(experiment.identity().dump());
  for (const fs::path& input : experiment.inputs()) hash = file_digest(input, hash);
  return fmt::format("{:016x}", hash);
}

std::string content_digest(const fs::path& file) {
  return fmt::format("{:016x}", file_digest(file));
}

std::string build_id() {
  const std::string note = sim::own_build_note();  // the linker's digest; to hash the file costs some 30 ms
  std::string all = note.empty() ? content_digest(sim::own_file()) : fmt::format("{:016x}", sim::hash_text(note));
  for (const policies::LoadedPlugin& plugin : policies::loaded_plugins())  // they are part of the program
    all = fmt::format("{:016x}", sim::hash_text(all + plugin.digest));
  return all;
}

fs::path default_run_folder(const fs::path& config, const std::string& hash, const fs::path& parent) {
  return parent / fmt::format("{}-{}", config.stem().string(), hash.substr(0, 8));
}

FolderState folder_state(const fs::path& folder, const std::string& hash) {
  std::error_code error;
  if (!fs::exists(folder, error)) return FolderState::absent;
  try {
    const sim::Node manifest = sim::read_json(folder / "manifest.json");
    const auto equals = [&](const char* key, std::string_view value) {
      const sim::Node* node = manifest.find(key);
      return node != nullptr && node->is_string() && node->as_string() == value;
    };
    if (equals("config_hash", hash) && equals("version", version()) && equals("build", build_id()))
      return FolderState::same_run;
  } catch (const sim::ConfigError&) {
    // no manifest, or one that is not ours
  }
  return FolderState::other;
}

RunFolder::RunFolder(fs::path folder, bool force) : folder_(std::move(folder)) {
  const auto refuse = [&](const std::string& message, const std::string& hint = {}) {
    sim::throw_fault({folder_.string(), ""}, message, hint);
  };
  folder_ = folder_.lexically_normal();
  if (!folder_.has_filename()) folder_ = folder_.parent_path();  // "results/" is "results"
  if (folder_.empty() || folder_.filename() == "." || folder_.filename() == "..")
    refuse("expected the name of a new folder");
  std::error_code error;
  if (fs::exists(folder_, error)) {
    if (!force) refuse("expected a folder that does not exist yet", "give --force to replace it");
    const bool replaceable =
        fs::is_directory(folder_) && (fs::is_empty(folder_) || fs::is_regular_file(folder_ / "manifest.json"));
    if (!replaceable) refuse("expected a folder of a run or an empty one to replace, found something else");
  }
  const fs::path parent = folder_.has_parent_path() ? folder_.parent_path() : fs::path(".");
  remove_unfinished(parent, folder_.filename().string());
  for (fs::path missing = parent; !missing.empty() && !fs::exists(missing, error); missing = missing.parent_path())
    made_.insert(made_.begin(), missing);
  error.clear();
  fs::create_directories(parent, error);
  if (!error) {
    working_ = parent / fmt::format(".{}.{}", folder_.filename().string(), getpid());
    fs::create_directory(working_, error);
  }
  if (error) refuse(fmt::format("expected a place that can be written: {}", error.message()));
}

RunFolder::~RunFolder() {
  if (committed_) return;
  std::error_code ignored;
  fs::remove_all(working_, ignored);
  for (auto it = made_.rbegin(); it != made_.rend(); ++it) fs::remove(*it, ignored);  // only while empty
}

void RunFolder::commit() {
  if (fs::exists(folder_)) {
    // Move the old folder aside first: at no moment does a half-written one stand in its place.
    const fs::path old = working_.string() + ".old";
    fs::rename(folder_, old);
    fs::rename(working_, folder_);
    fs::remove_all(old);
  } else {
    fs::rename(working_, folder_);
  }
  committed_ = true;
}

sim::Node manifest(const Experiment& experiment, const Outcome& outcome, const ManifestFacts& facts) {
  sim::Node node = sim::Node::object();
  node.set("format", sim::Node::string(std::string(kRunFormat)));
  node.set("config_hash", sim::Node::string(facts.hash));
  node.set("version", sim::Node::string(std::string(version())));
  node.set("build", sim::Node::string(build_id()));
  if (const auto plugins = policies::loaded_plugins(); !plugins.empty()) {
    sim::Node list = sim::Node::array();
    for (const policies::LoadedPlugin& loaded : plugins) {
      sim::Node plugin = sim::Node::object();
      plugin.set("name", sim::Node::string(loaded.plugin->name));
      plugin.set("path", sim::Node::string(loaded.file.string()));
      plugin.set("digest", sim::Node::string(loaded.digest));
      list.push(std::move(plugin));
    }
    node.set("plugins", std::move(list));
  }
  node.set("seed", sim::Node::integer(experiment.seed()));
  node.set("compiler", sim::Node::string("g++ " __VERSION__));
  node.set("host", sim::Node::string(host_name()));
  node.set("wall_s", sim::Node::real(facts.wall_s));
  node.set("events", sim::Node::integer(static_cast<std::int64_t>(outcome.events)));
  sim::Node inputs = sim::Node::array();
  for (const fs::path& path : experiment.inputs()) {
    sim::Node input = sim::Node::object();
    input.set("path", sim::Node::string(path.string()));
    input.set("digest", sim::Node::string(content_digest(path)));
    inputs.push(std::move(input));
  }
  node.set("inputs", std::move(inputs));
  sim::Node notes = sim::Node::array();
  for (const std::string& note : outcome.notes) notes.push(sim::Node::string(note));
  node.set("notes", std::move(notes));
  node.set("config", experiment.resolved());
  return node;
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.flush();
  if (!file) throw sim::WriteFault(path);
}

}  // namespace orrery::experiments
