// The order of the folders: who may include whom (docs/architecture.md).
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

TEST_CASE("every folder has a map", "[structure]") {
  for (const auto& [folder, allowed] : kMayInclude) {
    INFO(folder);
    CHECK(fs::is_regular_file(fs::path(ORRERY_SOURCE_DIR) / folder / "README.md"));
  }
}

TEST_CASE("every source is in a build list", "[structure]") {
  for (const auto& [folder, allowed] : kMayInclude) {
    const fs::path root = fs::path(ORRERY_SOURCE_DIR) / folder;
    for (const fs::path& source : sources(root)) {
      if (source.extension() != ".cpp") continue;
      INFO(source.string());
      fs::path near = source.parent_path();  // the nearest list above it
      while (near != root && !fs::is_regular_file(near / "CMakeLists.txt")) near = near.parent_path();
      std::ifstream file(near / "CMakeLists.txt");
      const std::string list{std::istreambuf_iterator<char>(file), {}};
      CHECK(list.find(fs::relative(source, near).string()) != std::string::npos);
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
