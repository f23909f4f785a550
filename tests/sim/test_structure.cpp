// The order of the folders: who may include whom (docs/explain/architecture.md).
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace test_structure {

namespace fs = std::filesystem;

namespace {

const std::map<std::string, std::set<std::string>> kMayInclude{
    {"sim", {"sim"}},
    {"hw", {"sim", "hw"}},
    {"models", {"sim", "hw", "models"}},
    {"traces", {"sim", "traces"}},
    {"policies", {"sim", "hw", "models", "traces", "policies"}},
    {"experiments", {"sim", "hw", "models", "traces", "policies", "experiments"}},
    {"tools", {"sim", "hw", "models", "traces", "policies", "experiments", "tools"}},
};

/// Floors of experiments: which others each may include, besides itself and the folders below experiments.
const std::map<std::string, std::set<std::string>> kFloors{
    {"base", {}},
    {"search", {"base"}},
    {"experts", {"base"}},
    {"systems/aggregate", {"base"}},
    {"systems/dram", {"base"}},
    {"systems/experts", {"base", "experts", "systems/serving"}},
    {"systems/function", {"base", "search"}},
    {"systems/graph", {"base"}},
    {"systems/hls", {"base"}},
    {"systems/launch", {"base"}},
    {"systems/mixture", {"base"}},
    {"systems/network", {"base"}},
    {"systems/pim", {"base"}},
    {"systems/serving", {"base", "experts", "systems/network"}},
    {"systems/tasks", {"base", "systems/network"}},
    {"systems/training", {"base", "experts"}},
    {"systems/transactions", {"base"}},
    {"import", {"base"}},
    {"tune", {"base", "search"}},
    {"capacity", {"base", "systems/serving"}},
    {"plans", {"base", "systems/serving", "capacity"}},
    {"job", {"base", "systems/training"}},
    {"feedback", {"base", "search", "systems/serving", "systems/training"}},
    {"moe_layers", {"base", "systems/training"}},
    {"uneven", {"base", "systems/training"}},
    {"progress", {"base", "job", "systems/training"}},
    {"claims", {"base"}},
    {"evolve", {"base", "claims"}},
    {"study", {"base", "search", "claims"}},
    {"rl/core", {"base"}},
    {"rl/learners", {"base", "search", "rl/core"}},
    {"rl/envs", {"base", "experts", "rl/core", "systems/serving", "claims", "study"}},
    {"rl", {"base", "claims", "systems/serving", "rl/core", "rl/learners", "rl/envs"}},
    {"fidelity", {"base", "experts", "systems/experts", "systems/serving", "systems/training", "systems/transactions"}},
    {"all", {"*"}},  // the roof, which lists every system
    {"answers", {"*"}},
};

/// Rooms of serving, in the same way.
const std::map<std::string, std::set<std::string>> kRooms{
    {"pricing", {}},
    {"observe", {"pricing"}},
    {"programs", {}},
    {"config", {"pricing", "programs"}},
    {"load", {"observe", "config", "programs"}},
    {"replica", {"pricing", "observe", "load"}},
    {"cluster", {"pricing", "observe", "config", "load", "replica"}},
    {"", {"*"}},  // set-up, the system itself
};

/// The row that a file's folder belongs to: the longest that it starts with.
std::string row_of(const std::map<std::string, std::set<std::string>>& rows, const std::string& folder) {
  std::string best;
  for (const auto& [row, allowed] : rows)
    if ((folder == row || folder.starts_with(row + "/")) && row.size() > best.size()) best = row;
  return best;
}

/// Path that an `#include "…"` line names, or nothing.
std::string included_path(const std::string& line) {
  const std::string start = "#include \"";
  if (!line.starts_with(start)) return {};
  return line.substr(start.size(), line.find('"', start.size()) - start.size());
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? std::string{} : path.substr(0, slash);
}

/// Folder that an `#include "folder/…"` line names, or nothing.
std::string included_folder(const std::string& line) {
  const std::string start = "#include \"";
  if (!line.starts_with(start)) return {};
  const auto slash = line.find('/', start.size());
  return slash == std::string::npos ? std::string{} : line.substr(start.size(), slash - start.size());
}

std::vector<fs::path> sources(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".hpp" || entry.path().extension() == ".cpp") files.push_back(entry.path());
  return files;
}

}  // namespace

TEST_CASE("folders include only what stands below them", "[structure]") {
  std::size_t includes = 0;
  for (const auto& [folder, allowed] : kMayInclude) {
    for (const fs::path& file : sources(fs::path(ORRERY_SOURCE_DIR) / folder)) {
      std::ifstream text(file);
      for (std::string line; std::getline(text, line);) {
        const std::string target = included_folder(line);
        if (!kMayInclude.contains(target)) continue;
        ++includes;
        INFO(file.string() << ": " << line);
        CHECK(allowed.contains(target));
      }
    }
  }
  CHECK(includes > 50);  // or the check looked at nothing
}

/// Every include of a file below `root` of another file below it goes where the rows allow.
void check_rows(const std::string& root, const std::map<std::string, std::set<std::string>>& rows) {
  std::size_t includes = 0;
  const fs::path base = fs::path(ORRERY_SOURCE_DIR) / root;
  for (const fs::path& file : sources(base)) {
    const std::string from = row_of(rows, folder_of(fs::relative(file, base).string()));
    INFO(file.string());
    REQUIRE(rows.contains(from));
    std::ifstream text(file);
    for (std::string line; std::getline(text, line);) {
      const std::string path = included_path(line);
      if (!path.starts_with(root + "/")) continue;
      const std::string to = row_of(rows, folder_of(path.substr(root.size() + 1)));
      const std::set<std::string>& allowed = rows.at(from);
      ++includes;
      INFO(line);
      CHECK((to == from || allowed.contains(to) || allowed.contains("*")));
    }
  }
  CHECK(includes > 50);
}

TEST_CASE("floors of experiments include only floors below", "[structure]") {
  check_rows("experiments", kFloors);
}

TEST_CASE("rooms of serving include only what they are built on", "[structure]") {
  check_rows("experiments/systems/serving", kRooms);
}

TEST_CASE("no two folders include each other", "[structure]") {
  std::map<std::pair<std::string, std::string>, std::string> edges;  // from and to, and a file that does
  const fs::path root(ORRERY_SOURCE_DIR);
  for (const auto& [top, allowed] : kMayInclude) {
    for (const fs::path& file : sources(root / top)) {
      const std::string from = folder_of(fs::relative(file, root).string());
      std::ifstream text(file);
      for (std::string line; std::getline(text, line);) {
        const std::string path = included_path(line), to = folder_of(path);
        if (to.empty() || to == from || !fs::is_regular_file(root / path)) continue;
        edges.emplace(std::pair(from, to), file.string());
      }
    }
  }
  CHECK(edges.size() > 100);
  for (const auto& [edge, file] : edges) {
    const auto back = edges.find({edge.second, edge.first});
    INFO(edge.first << " and " << edge.second << ": " << file);
    CHECK(back == edges.end());
  }
}

TEST_CASE("every folder has a map", "[structure]") {
  for (const auto& [folder, allowed] : kMayInclude) {
    INFO(folder);
    CHECK(fs::is_regular_file(fs::path(ORRERY_SOURCE_DIR) / folder / "README.md"));
  }
}

TEST_CASE("every source is compiled", "[structure]") {
  // By the library of the nearest folder that is one (orrery_folder takes every .cpp), or, if left out there, by
  // another target of that list.
  for (const auto& [folder, allowed] : kMayInclude) {
    const fs::path root = fs::path(ORRERY_SOURCE_DIR) / folder;
    for (const fs::path& source : sources(root)) {
      if (source.extension() != ".cpp") continue;
      INFO(source.string());
      fs::path near = source.parent_path();
      while (near != root && !fs::is_regular_file(near / "CMakeLists.txt")) near = near.parent_path();
      std::ifstream file(near / "CMakeLists.txt");
      const std::string list{std::istreambuf_iterator<char>(file), {}};
      const std::string name = fs::relative(source, near).string();
      const bool all = list.find("orrery_folder(") != std::string::npos;
      const std::size_t left_out = list.find("EXCEPT " + name);
      const std::size_t from = left_out == std::string::npos ? 0 : left_out + name.size() + 7;
      CHECK(((all && from == 0) || list.find(name, from) != std::string::npos));
    }
  }
}

TEST_CASE("registries are one value that is passed", "[structure]") {
  // One that is made where it is used, and kept, does not have the policies of plugins that come later.
  const std::regex kept(
      R"(\bstatic (const )?[\w:<]*(Registry|Registries|RegistrySet|FormatTable|PerPlugins|Systems?)\b[^(]*( =|;|\{))");
  CHECK(std::regex_search(R"(  static const search::DriverRegistry registry = [] {)", kept));
  CHECK(std::regex_search(R"(  static policies::PerPlugins<R> registry;)", kept));
  CHECK_FALSE(std::regex_search(R"(  static Registry make(int);)", kept));
  for (const auto& [folder, allowed] : kMayInclude)
    for (const fs::path& file : sources(fs::path(ORRERY_SOURCE_DIR) / folder)) {
      std::ifstream text(file);
      for (std::string line; std::getline(text, line);) {
        INFO(file.string() << ": " << line);
        CHECK_FALSE(std::regex_search(line, kept));
        CHECK(line.find("PerPlugins") == std::string::npos);
      }
    }
}

TEST_CASE("the walk-through shows the code that is there", "[structure]") {
  const fs::path root(ORRERY_SOURCE_DIR);
  const auto text_of = [](const fs::path& path) {
    std::ifstream file(path);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const std::string code =
      text_of(root / "policies/batching/static.cpp") + text_of(root / "tests/policies/test_static.cpp");
  std::ifstream guide(root / "CONTRIBUTING.md");
  bool inside = false;
  int lines = 0;
  for (std::string line; std::getline(guide, line);) {
    if (line.find("```") != std::string::npos) {
      inside = line.find("```cpp") != std::string::npos;
      continue;
    }
    const auto start = line.find_first_not_of(' ');
    if (!inside || start == std::string::npos) continue;
    // Code stands three spaces further in than in its file, and comments may sit closer.
    const std::string bare =
        line.substr(start, line.find("  //") == std::string::npos ? std::string::npos : line.find("  //") - start);
    ++lines;
    INFO(line);
    CHECK(code.find(bare) != std::string::npos);
  }
  CHECK(lines > 25);
}

}  // namespace test_structure
