// Of each test case: its processor time and the changes that it reached, a line each in ORRERY_MUTANTS_CASES.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "mutant.hpp"

namespace {

double processor_seconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    getrusage(who, &used);
    for (const timeval& time : {used.ru_utime, used.ru_stime})
      sum += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }
  return sum;
}

class Watch : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    if (const char* count = std::getenv("ORRERY_MUTANTS_COUNT")) count_ = std::strtoul(count, nullptr, 10);
    if (orrery_mutant::watching) std::memset(orrery_mutant::seen, 0, 2 * count_);
    start_ = processor_seconds();
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    TestEventListenerBase::testCaseEnded(stats);
    const char* path = std::getenv("ORRERY_MUTANTS_CASES");
    if (!orrery_mutant::watching || path == nullptr) return;
    std::FILE* file = std::fopen(path, "a");
    std::fprintf(file, "%s\t%d\t%.4f\t", stats.testInfo.name.c_str(), stats.totals.assertions.failed == 0,
                 processor_seconds() - start_);
    for (std::size_t i = 0; i < count_; ++i)
      if (orrery_mutant::seen[2 * i] != 0)
        std::fprintf(file, "%zu%s ", i, orrery_mutant::seen[2 * i + 1] != 0 ? "!" : "");
    std::fputc('\n', file);
    std::fclose(file);
  }

 private:
  std::size_t count_ = 0;
  double start_ = 0;
};

CATCH_REGISTER_LISTENER(Watch)

}  // namespace
