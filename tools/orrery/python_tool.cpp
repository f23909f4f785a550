#include "tools/orrery/python_tool.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "experiments/base/experiment.hpp"
#include "sim/base/fault.hpp"
#include "sim/child_process.hpp"

namespace orrery::tools {
namespace {

/// The arguments as execv takes them; they live as long as `arguments`.
std::vector<char*> raw_arguments(const std::vector<std::string>& arguments) {
  std::vector<char*> raw;
  for (const std::string& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  return raw;
}

/// Runs the program and gives its exit code back; 1 if it could not be started.
int execute(const std::vector<std::string>& arguments) {
  const std::vector<char*> raw = raw_arguments(arguments);
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    execv(raw[0], raw.data());
    _exit(127);
  }
  int status = 0;
  if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status)) return 1;
  return WEXITSTATUS(status);
}

}  // namespace

std::string python_interpreter() {
  // Debian's interpreter is the one that sees Debian's modules; another python3 may come first on PATH.
  const char* chosen = std::getenv("ORRERY_PYTHON");
  return chosen != nullptr ? chosen : "/usr/bin/python3";
}

bool python_has(const std::string& module) {
  constexpr double kSeconds = 30;
  const std::string look = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)";
  return sim::run_program({python_interpreter(), "-c", look, module}, kSeconds) == 0;
}

std::vector<std::string> python_command(const std::string& package, const std::vector<std::string>& arguments) {
  const std::string python = python_interpreter();
  if (!std::filesystem::exists(python))
    sim::throw_fault({python, ""}, "expected a Python interpreter, found none",
                     "set ORRERY_PYTHON, or run tools/setup");
  std::vector<std::string> all{python, (experiments::home_folder() / "tools/python" / package).string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

int run_python_tool(const std::string& package, const std::vector<std::string>& arguments) {
  return execute(python_command(package, arguments));
}

int become_python_tool(const std::string& package, const std::vector<std::string>& arguments) {
  const std::vector<std::string> command = python_command(package, arguments);
  const std::vector<char*> raw = raw_arguments(command);
  // An interpreter that is starting dies of a signal, or prints its own words; the package lets them through when it
  // can answer them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  execv(raw[0], raw.data());
  return 1;
}

}  // namespace orrery::tools
