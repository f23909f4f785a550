// Replays inputs without a fuzzer, and changes them blindly for a while: what any compiler can build.
//
//   fuzz_replay                               names of the targets
//   fuzz_replay TARGET FOLDER|FILE...         each input once
//   fuzz_replay --seconds S [--seed N] TARGET FOLDER|FILE...   and changed ones, for S seconds of processor time
//   fuzz_replay --changed COUNT [--seed N] TARGET FOLDER|FILE...   and so many of them
//
// An input that ends the program is in the file that it says; the exit code is that of the end.
#include <fmt/format.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/target.hpp"

namespace {

namespace fs = std::filesystem;
namespace fuzz = orrery::fuzz;

constexpr std::size_t kMostBytes = 16384;  // of a changed input; seeds may be longer
constexpr unsigned kHangSeconds = 5;
constexpr rlim_t kMostMemory = 4ULL << 30;  // of addresses; what is used is far less

std::string g_input;
std::string g_kept = "fuzz-failure";

/// Keeps the input at hand and ends as the signal wants. Only calls that a handler may make.
void keep_input(int signal) {
  const int file = ::creat(g_kept.c_str(), 0666);
  if (file >= 0) {
    (void)!::write(file, g_input.data(), g_input.size());
    ::close(file);
  }
  constexpr char kText[] = "fuzz_replay: the input is in fuzz-failure\n";
  (void)!::write(2, kText, sizeof kText - 1);
  std::signal(signal, SIG_DFL);
  (void)std::raise(signal);
}

std::vector<std::string> inputs_of(std::span<char*> places) {
  std::vector<fs::path> files;
  for (const char* place : places) {
    if (!fs::is_directory(place)) {
      if (fs::exists(place)) files.emplace_back(place);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(place))
      if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> all;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    all.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return all;
}

/// A few changes: bytes, pieces copied or taken out, the end cut, and pieces of another input.
std::string changed(std::string text, const std::vector<std::string>& others, std::mt19937& stream) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : stream() % n; };
  constexpr std::string_view kWords[] = {
      "0",    "-1", "1e308", "9223372036854775807", "nan", "null", "\"", "[", "]", "{", "}", ",", ":", "\n",
      "\xff", "(",  ")"};
  for (std::size_t change = 1 + below(4); change > 0; --change) {
    const std::size_t at = below(text.size() + 1), length = below(std::min<std::size_t>(64, text.size() - at) + 1);
    switch (stream() % 7) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(stream());
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << stream() % 8));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(below(text.size() + 1), text.substr(at, length));
        break;
      case 4:
        text.insert(at, kWords[below(std::size(kWords))]);
        break;
      case 5: {
        const std::string& other = others[below(others.size())];
        text.insert(at, other.substr(below(other.size() + 1), below(64)));
        break;
      }
      default:
        if (below(4) == 0) text.resize(at);
    }
  }
  return text;
}

void run(const fuzz::Target& target, std::string input) {
  g_input = std::move(input);
  alarm(kHangSeconds);
  fuzz::run_target(target, g_input);
  alarm(0);
}

double cpu_s() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  std::size_t most = 0;
  unsigned seed = 1;
  int at = 1;
  for (; at + 1 < argc && std::string_view(argv[at]).starts_with("--"); at += 2) {
    if (std::string_view(argv[at]) == "--seconds") seconds = std::atof(argv[at + 1]);
    if (std::string_view(argv[at]) == "--changed") most = static_cast<std::size_t>(std::atoll(argv[at + 1]));
    if (std::string_view(argv[at]) == "--seed") seed = static_cast<unsigned>(std::atol(argv[at + 1]));
  }
  if (at >= argc) {
    for (const fuzz::Target& target : fuzz::targets()) fmt::print("{}\n", target.name);
    return 0;
  }
  const fuzz::Target* target = fuzz::find_target(argv[at]);
  if (target == nullptr) {
    fmt::print(stderr, "fuzz_replay: no target '{}'\n", argv[at]);
    return 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) std::signal(signal, keep_input);
  const rlimit memory{kMostMemory, kMostMemory};
  setrlimit(RLIMIT_AS, &memory);
  const std::vector<std::string> inputs = inputs_of(std::span(argv + at + 1, argv + argc));
  if (inputs.empty()) {
    fmt::print(stderr, "fuzz_replay: no inputs\n");
    return 2;
  }
  for (const std::string& input : inputs) run(*target, input);
  std::size_t count = 0;
  std::mt19937 stream(seed);
  for (const double end = cpu_s() + seconds; count < most || cpu_s() < end; ++count) {
    const std::string& one = inputs[stream() % inputs.size()];
    run(*target, changed(one.substr(0, kMostBytes), inputs, stream));
  }
  fmt::print("{}: {} inputs, {} changed ones\n", target->name, inputs.size(), count);
  return 0;
}
