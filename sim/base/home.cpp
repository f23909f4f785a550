#include "sim/base/home.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

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

constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + 3) / 4 * 4;
}

/// The build ID among notes: of each a header, a name and a description, padded to 4 bytes.
std::string build_id_among(std::string_view notes) {
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof note) {
    std::memcpy(&note, notes.data(), sizeof note);
    notes.remove_prefix(sizeof note);
    const std::size_t name = padded(note.n_namesz), size = padded(note.n_descsz);
    if (name > notes.size() || size > notes.size() - name) return {};
    if (note.n_type == NT_GNU_BUILD_ID && notes.substr(0, note.n_namesz) == std::string_view("GNU", 4)) {
      std::string digits;
      for (const char byte : notes.substr(name, note.n_descsz))
        digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
      return digits;
    }
    notes.remove_prefix(name + size);
  }
  return {};
}

/// Of the loaded object that holds this function.
int find_build_note(dl_phdr_info* object, std::size_t, void* found) {
  const auto here = reinterpret_cast<std::uintptr_t>(&find_build_note);
  bool own = false;
  std::string id;
  for (std::size_t i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && here >= begin && here - begin < part.p_memsz) own = true;
    if (part.p_type == PT_NOTE && id.empty()) id = build_id_among({reinterpret_cast<const char*>(begin), part.p_memsz});
  }
  if (own) *static_cast<std::string*>(found) = id;
  return own ? 1 : 0;
}

}  // namespace

std::string own_build_note() {
  std::string id;
  dl_iterate_phdr(&find_build_note, &id);
  return id;
}

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
