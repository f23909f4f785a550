#include "tests/fuzz/target.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "experiments/study/sqlite.hpp"
#include "sim/base/fault.hpp"

namespace orrery::fuzz {

namespace fs = std::filesystem;

const Target* find_target(std::string_view name) {
  const auto all = targets();
  const auto found = std::ranges::find(all, name, &Target::name);
  return found == all.end() ? nullptr : &*found;
}

void run_target(const Target& target, std::string_view input) {
  try {
    target.run(input);
  } catch (const sim::ConfigError& error) {
    require(!error.faults().empty(), "a ConfigError has a fault");
    for (const sim::Fault& fault : error.faults()) require(!fault.text().empty(), "a fault has a text");
  } catch (const experiments::study::StoreError&) {
  } catch (const std::overflow_error&) {  // sizes past 64 bits: told as input by the command
  } catch (const fs::filesystem_error&) {
  }
}

void require(bool holds, std::string_view what) {
  if (holds) return;
  fmt::print(stderr, "does not hold: {}\n", what);
  std::abort();
}

fs::path as_file(std::string_view input, std::string_view name) {
  static const fs::path folder = [] {
    fs::path place = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    place /= fmt::format("orrery-fuzz-{}", getpid());
    fs::create_directories(place);
    std::atexit([] {
      std::error_code ignored;
      fs::remove_all(folder, ignored);
    });
    return place;
  }();
  const fs::path file = folder / name;
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary | std::ios::trunc) << input;
  return file;
}

}  // namespace orrery::fuzz
