// libFuzzer's entry: the target is named by ORRERY_FUZZ_TARGET.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/target.hpp"

namespace {

const orrery::fuzz::Target& chosen() {
  static const orrery::fuzz::Target* target = [] {
    const char* name = std::getenv("ORRERY_FUZZ_TARGET");
    const orrery::fuzz::Target* found = name != nullptr ? orrery::fuzz::find_target(name) : nullptr;
    if (found == nullptr) {
      fmt::print(stderr, "ORRERY_FUZZ_TARGET: expected the name of a target, found none\n");
      std::exit(2);
    }
    return found;
  }();
  return *target;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  orrery::fuzz::run_target(chosen(), {reinterpret_cast<const char*>(data), size});
  return 0;
}
