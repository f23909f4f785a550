#include "sim/base/home.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace orrery::sim {
namespace {

namespace fs = std::filesystem;

bool is_shared_object(const fs::path& file) {
  return file.filename().string().find(".so") != std::string::npos;
}

/// PREFIX for PREFIX/bin/orrery and PREFIX/lib/python3/dist-packages/orrery/_orrery….so, where PREFIX/share/orrery holds
/// the shipped data; else nothing: it runs where it was built.
std::optional<fs::path> installed_prefix() {
  std::error_code error;
  const fs::path own = fs::canonical(own_file(), error);
  if (error) return std::nullopt;
  fs::path prefix = (own.parent_path() / (is_shared_object(own) ? "../../../.." : "..")).lexically_normal();
  if (fs::is_directory(prefix / "share/orrery/hw/catalog", error)) return prefix;
  return std::nullopt;
}

fs::path shipped_folder() {
  const auto prefix = installed_prefix();
  return prefix ? (*prefix / "share/orrery").lexically_normal() : fs::path(ORRERY_HOME_FOLDER);
}

constexpr std::size_t padded(std::size_t bytes, std::size_t align) {
  return (bytes + align - 1) / align * align;
}

/// The build ID among notes: of each a header, a name and a description. They are padded to 4 bytes, where `align` is 8
/// (the notes of a processor's properties) to 8.
std::string build_id_among(std::string_view notes, std::size_t align) {
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof note) {
    std::memcpy(&note, notes.data(), sizeof note);
    notes.remove_prefix(sizeof note);
    const std::size_t name = padded(sizeof note + note.n_namesz, align) - sizeof note;
    const std::size_t size = padded(note.n_descsz, align);
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

/// Callback of dl_iterate_phdr: stores the build ID of the object that holds this function, and stops there.
int find_build_note(dl_phdr_info* object, std::size_t, void* found) {
  const std::span parts(object->dlpi_phdr, object->dlpi_phnum);
  const auto begin = [&](const ElfW(Phdr) & part) { return object->dlpi_addr + part.p_vaddr; };
  const auto here = reinterpret_cast<std::uintptr_t>(&find_build_note);
  const bool own = std::any_of(parts.begin(), parts.end(), [&](const ElfW(Phdr) & part) {
    return part.p_type == PT_LOAD && here >= begin(part) && here - begin(part) < part.p_memsz;
  });
  if (!own) return 0;
  std::string& id = *static_cast<std::string*>(found);
  for (const ElfW(Phdr) & part : parts)
    if (part.p_type == PT_NOTE && id.empty())
      id = build_id_among({reinterpret_cast<const char*>(begin(part)), part.p_memsz}, part.p_align == 8 ? 8 : 4);
  return 1;
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

fs::path module_file(const std::string& name) {
  if (const auto prefix = installed_prefix()) return *prefix / "lib/orrery" / name;
  std::error_code error;
  const fs::path beside = fs::canonical(own_file(), error).parent_path() / name;
  return !error && fs::exists(beside, error) ? beside : fs::path(ORRERY_BUILD_FOLDER) / name;
}

}  // namespace orrery::sim
