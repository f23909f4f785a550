#include "sim/base/home.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace orrery::sim {
namespace {

namespace fs = std::filesystem;

bool is_shared_object(const fs::path& file) {
  return file.filename().string().find(".so") != std::string::npos;
}

/// PREFIX/share/orrery for PREFIX/bin/orrery and PREFIX/lib/python3/dist-packages/orrery/_orrery….so; else the source.
fs::path shipped_folder() {
  std::error_code error;
  const fs::path own = fs::canonical(own_file(), error);
  if (!error) {
    const char* prefix = is_shared_object(own) ? "../../../.." : "..";
    const fs::path installed = (own.parent_path() / prefix / "share/orrery").lexically_normal();
    if (fs::is_directory(installed / "hw/catalog", error)) return installed;
  }
  return ORRERY_HOME_FOLDER;
}

}  // namespace

fs::path own_file() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&home_folder), &info) == 0 || info.dli_fname == nullptr)
    return "/proc/self/exe";
  const fs::path file = info.dli_fname;  // of a program that is argv[0], which may lie nowhere
  return is_shared_object(file) ? file : fs::path("/proc/self/exe");
}

fs::path home_folder() {
  const char* chosen = std::getenv("ORRERY_HOME");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  static const fs::path shipped = shipped_folder();
  return shipped;
}

}  // namespace orrery::sim
