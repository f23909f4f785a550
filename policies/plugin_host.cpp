#include "policies/plugin_host.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <sstream>

#include "models/sym/symbol_names.hpp"
#include "policies/plugin_abi.hpp"
#include "policies/registries.hpp"
#include "sim/base/document.hpp"
#include "sim/base/fault.hpp"

namespace orrery::policies {
namespace {

namespace fs = std::filesystem;

std::shared_mutex g_mutex;
std::vector<LoadedPlugin> g_loaded;  // the process's, as the shared objects are

struct Closer {
  void operator()(void* handle) const { dlclose(handle); }
};
using Handle = std::unique_ptr<void, Closer>;

/// What the linker says, without the file that it starts with.
std::string linker_says(const fs::path& file) {
  const char* told = dlerror();
  std::string text = told != nullptr ? told : "unknown fault";
  if (text.starts_with(file.string() + ": ")) text.erase(0, file.string().size() + 2);
  return text;
}

std::string digest_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::error_code error;
  if (!in || !fs::is_regular_file(file, error))
    sim::throw_fault({file.string(), ""}, "expected a plugin (a shared object), found no such file");
  const std::string content{std::istreambuf_iterator<char>(in), {}};
  return fmt::format("{:016x}", sim::hash_text(content));
}

Handle open_library(const fs::path& file) {
  Handle handle(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (handle == nullptr)
    sim::throw_fault({file.string(), ""}, fmt::format("expected a shared object: {}", linker_says(file)));
  return handle;
}

const Plugin* enter(void* library, const fs::path& file) {
  const auto abi = reinterpret_cast<const char* (*)()>(dlsym(library, kPluginAbiSymbol));
  const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, kPluginEntrySymbol));
  if (abi == nullptr || entry == nullptr)
    sim::throw_fault(
        {file.string(), ""},
        fmt::format("expected a plugin, found no entry '{}'", abi == nullptr ? kPluginAbiSymbol : kPluginEntrySymbol),
        "ORRERY_PLUGIN(…) of policies/plugin.hpp makes it");
  if (std::string_view(abi()) != plugin_abi())
    sim::throw_fault({file.string(), ""},
                     fmt::format("expected a plugin for Orrery {}, got one for {}", plugin_abi(), abi()),
                     "build it again against this version");
  return entry({.intern_name = models::intern_name()});
}

/// Reports names that are taken.
template <class R>
void check_names(const R& known, void (*hook)(R&), const fs::path& file, sim::Faults& faults) {
  if (hook == nullptr) return;
  R own(known.kind());
  try {
    hook(own);
  } catch (const std::exception& error) {
    faults.add({file.string(), ""}, error.what());
    return;
  }
  const std::vector<std::string> taken = known.names();
  for (const std::string& name : own.names())
    if (std::ranges::find(taken, name) != taken.end())
      faults.add({file.string(), ""}, fmt::format("there is a {} policy '{}' already", known.kind(), name),
                 "give the plugin's another name");
}

void check_names(const Plugin& plugin, const fs::path& file) {
  const Registries known = all_policies(loaded_plugins());
  sim::Faults faults;
#define ORRERY_KIND(name, ...) check_names(known.name, plugin.name, file, faults);
  ORRERY_POLICY_KINDS(ORRERY_KIND)
#undef ORRERY_KIND
  faults.throw_if_any();
}

}  // namespace

const char* plugin_abi() {
  return ORRERY_PLUGIN_ABI;
}

std::vector<LoadedPlugin> loaded_plugins() {
  const std::shared_lock lock(g_mutex);
  return g_loaded;
}

LoadedPlugin load_plugin(const fs::path& given) {
  std::error_code error;
  const fs::path resolved = fs::canonical(given, error);
  const fs::path file = error ? fs::absolute(given) : resolved;
  LoadedPlugin loaded{.file = file, .digest = digest_of(file)};
  for (const LoadedPlugin& other : loaded_plugins())
    if (other.digest == loaded.digest) return other;
  Handle library = open_library(file);
  loaded.plugin = enter(library.get(), file);
  check_names(*loaded.plugin, file);
  (void)library.release();  // policies of it may live as long as the process
  const std::unique_lock lock(g_mutex);
  g_loaded.push_back(loaded);
  return loaded;
}

void load_environment_plugins() {
  const char* given = std::getenv(kPluginVariable);
  std::istringstream files(given != nullptr ? given : "");
  for (std::string file; std::getline(files, file, ':');)
    if (!file.empty()) (void)load_plugin(file);
}

}  // namespace orrery::policies
