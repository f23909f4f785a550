#include "policies/plugin_host.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
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

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::error_code error;
  if (!in || !fs::is_regular_file(file, error))
    sim::throw_fault({file.string(), ""}, "expected a plugin (a shared object), found no such file");
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The linker maps what the headers name, and whoever touches a page behind the end of the file gets SIGBUS: a file
/// that was cut, or is of another machine, is refused before (ELF-64, System V ABI, chapter 4).
void check_whole(const std::string& content, const fs::path& file) {
  const auto refuse = [&](const std::string& found) {
    sim::throw_fault({file.string(), ""}, fmt::format("expected a shared object of this machine, found {}", found));
  };
  Elf64_Ehdr head{};
  if (content.size() < sizeof head) refuse(fmt::format("{} bytes", content.size()));
  std::memcpy(&head, content.data(), sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) refuse("something else");
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != EM_X86_64 || head.e_type != ET_DYN)
    refuse("a program of another kind");
  std::uint64_t end = 0;
  bool counted = head.e_phentsize == sizeof(Elf64_Phdr);
  const auto reaches = [&](std::uint64_t from, std::uint64_t bytes) {
    counted = counted && from + bytes >= from;
    end = std::max(end, from + bytes);
  };
  reaches(head.e_phoff, std::uint64_t{head.e_phnum} * sizeof(Elf64_Phdr));
  if (head.e_shoff != 0) reaches(head.e_shoff, std::uint64_t{head.e_shnum} * head.e_shentsize);
  for (std::uint64_t i = 0; counted && end <= content.size() && i < head.e_phnum; ++i) {
    Elf64_Phdr segment{};
    std::memcpy(&segment, content.data() + head.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type != PT_NULL) reaches(segment.p_offset, segment.p_filesz);
  }
  if (!counted) refuse("damaged headers");
  if (end > content.size()) refuse(fmt::format("one cut short: {} bytes of {}", content.size(), end));
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
  const std::string content = content_of(file);
  LoadedPlugin loaded{.file = file, .digest = fmt::format("{:016x}", sim::hash_text(content))};
  for (const LoadedPlugin& other : loaded_plugins())
    if (other.digest == loaded.digest) return other;
  check_whole(content, file);
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
