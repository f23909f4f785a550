// Where this code lies, and where shipped data lies: parts, models, rules, studies.
#pragma once

#include <filesystem>
#include <string>

namespace orrery::sim {

/// File that holds this code: the program, or the shared object (a Python module) that it was linked into.
std::filesystem::path own_file();

/// The linker's digest of own_file() in hexadecimal digits (the GNU build ID of its notes); empty if it holds none.
std::string own_build_note();

/// Folder of the shipped data: $ORRERY_HOME; or `share/orrery` of the installed tree that own_file() stands in,
/// wherever that was moved to; or the source tree that the program was built from.
std::filesystem::path home_folder();

/// Where a module of this program lies, a shared object that is loaded when it is needed: `lib/orrery` of the installed
/// tree that own_file() stands in; else beside own_file(), or in the folder that the program was built in.
std::filesystem::path module_file(const std::string& name);

}  // namespace orrery::sim
