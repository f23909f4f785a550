// Reads the environment before any test runs, and leads commands that tests start to the changed program.
#include "mutant.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace orrery_mutant {

int chosen = -1;
bool watching = false;
unsigned char* seen = nullptr;

namespace {

/// Runs before the initialisers of other files.
__attribute__((constructor(101))) void read_environment() {
  if (const char* number = std::getenv("ORRERY_MUTANT")) chosen = std::atoi(number);
  const char* path = std::getenv("ORRERY_MUTANTS_SEEN");
  if (path == nullptr) return;
  const int file = open(path, O_RDWR);
  const off_t size = lseek(file, 0, SEEK_END);
  void* memory = mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return;
  seen = static_cast<unsigned char*>(memory);
  watching = true;
}

std::string led(const char* line) {
  std::string text = line;
  const char* from = std::getenv("ORRERY_MUTANTS_COMMAND_FROM");
  const char* to = std::getenv("ORRERY_MUTANTS_COMMAND_TO");
  if (from == nullptr || to == nullptr) return text;
  const std::string old = std::string(from) + "'";  // as tests quote it
  for (std::size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + 1))
    text.replace(at, old.size() - 1, to);
  return text;
}

}  // namespace
}  // namespace orrery_mutant

extern "C" {
FILE* __real_popen(const char* line, const char* mode);
FILE* __wrap_popen(const char* line, const char* mode) { return __real_popen(orrery_mutant::led(line).c_str(), mode); }
int __real_system(const char* line);
int __wrap_system(const char* line) { return __real_system(orrery_mutant::led(line).c_str()); }
}
