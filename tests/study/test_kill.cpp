// Killed at any moment: taken up again, the store ends as if nothing had happened.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <thread>

#include "study_support.hpp"

namespace orrery::experiments::study::test_kill {
namespace {

using namespace test;

/// Starts the command; its output goes nowhere.
pid_t start(const Scratch& scratch, const std::vector<std::string>& arguments) {
  const pid_t child = fork();
  if (child != 0) return child;
  const int null = open("/dev/null", O_RDWR);
  for (const int fd : {0, 1, 2}) dup2(null, fd);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  if (chdir((scratch / "").c_str()) == 0) execv(ORRERY_COMMAND, argv.data());
  _exit(127);
}

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

/// Kills the command at random moments until it has been killed so often; each time that it ends by itself the store
/// is compared and begun anew. Returns how many stores were compared.
int kill_at_random(const Scratch& scratch, const std::string& command, int kills, const std::string& expected,
                   double longest_ms) {
  sim::RandomStream random(7, "kills/" + command);
  const fs::path out = scratch / (command + ".sqlite");
  int compared = 0;
  for (int killed = 0; killed < kills || fs::exists(out);) {
    const bool let_go = killed >= kills;
    const pid_t child = start(scratch, {"orrery", command, "s.json", "--out", out.string(), "--jobs", "2", "--quiet"});
    if (!let_go) {
      std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int>(1000 * random.uniform(0, longest_ms))));
      kill(child, SIGKILL);
    }
    const int status = wait_for(child);
    if (WIFSIGNALED(status)) {
      ++killed;
      continue;
    }
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0);
    REQUIRE(dump(out) == expected);
    fs::remove(out);
    ++compared;
  }
  return compared;
}

/// How long the command takes when it is left alone.
double alone_ms(const Scratch& scratch, const std::string& command) {
  const auto begin = std::chrono::steady_clock::now();
  const fs::path out = scratch / (command + "-whole.sqlite");
  REQUIRE(wait_for(start(scratch, {"orrery", command, "s.json", "--out", out.string(), "--jobs", "1", "--quiet"})) ==
          0);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

void check_kills(const std::string& command, int kills) {
  Scratch scratch;
  scratch.write("trace.csv", small_trace());
  scratch.write("s.json", study_json(R"("parameters": [
      {"name": "budget", "path": "policies.batching.sarathi.token_budget", "range": [64, 640], "type": "integer", "steps": 10},
      {"name": "rate", "path": "workload.rate_scale", "range": [0.5, 4], "scale": "log", "steps": 12}], )" +
                                     kGoals + R"(, "search": {"budget": 120, "batch": 7})"));
  const double longest = alone_ms(scratch, command);
  const std::string expected = dump(scratch / (command + "-whole.sqlite"));
  CHECK(kill_at_random(scratch, command, kills, expected, longest) >= 1);
}

TEST_CASE("a sweep killed at random ends with the same store", "[study]") {
  check_kills("sweep", 12);
}

TEST_CASE("a search killed at random ends with the same store", "[study]") {
  check_kills("search", 8);
}

TEST_CASE("a sweep and a search killed 50 times at random end with the same stores", "[study][slow]") {
  check_kills("sweep", 50);
  check_kills("search", 50);
}

}  // namespace
}  // namespace orrery::experiments::study::test_kill
