#include "sim/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace orrery::sim {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kPatience = 2;  // seconds that a program has to end after its input did

std::vector<char*> raw(const std::vector<std::string>& arguments) {
  std::vector<char*> all;
  for (const std::string& argument : arguments) all.push_back(const_cast<char*>(argument.c_str()));
  all.push_back(nullptr);
  return all;
}

/// Exit status once the child has ended; nothing if it goes on for `seconds`.
std::optional<int> wait_for(pid_t child, double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  auto pause = std::chrono::microseconds(200);
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) return std::nullopt;
    if (Clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20'000));
  }
}

/// Whether a stream is ready for such an event by then.
bool ready(int stream, short event, std::chrono::time_point<Clock, std::chrono::duration<double>> end) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    pollfd one{.fd = stream, .events = event, .revents = 0};
    const int some = poll(&one, 1, static_cast<int>(std::min<long>(left, 1'000'000)));
    if (some > 0) return true;
    if (some < 0 && errno != EINTR) return false;
  }
}

/// Kills a child, or the group of processes whose first it is.
void end_child(pid_t child, bool group = false) {
  kill(group ? -child : child, SIGKILL);
  (void)waitpid(child, nullptr, 0);
}

}  // namespace

std::optional<std::filesystem::path> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return access(name.c_str(), X_OK) == 0 ? std::optional<std::filesystem::path>(name) : std::nullopt;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path file = std::filesystem::path(folder.empty() ? "." : folder) / name;
    std::error_code none;
    if (std::filesystem::is_regular_file(file, none) && access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

std::optional<int> run_program(const std::vector<std::string>& arguments, double seconds) {
  const std::vector<char*> raw_arguments = raw(arguments);
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    const int nothing = open("/dev/null", O_RDWR);
    for (int stream = 0; stream < 3; ++stream) dup2(nothing, stream);
    execv(raw_arguments[0], raw_arguments.data());
    _exit(127);
  }
  const auto status = wait_for(child, seconds);
  if (!status) end_child(child);
  if (!status || !WIFEXITED(*status)) return std::nullopt;
  return WEXITSTATUS(*status);
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "orrery-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder: " + pattern);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code none;
  std::filesystem::remove_all(path_, none);
}

LineProcess::LineProcess(const std::vector<std::string>& arguments) {
  const std::vector<char*> raw_arguments = raw(arguments);
  int to[2], from[2];
  // A socket in place of a pipe: writing to a program that is gone is an error then and no signal.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to) != 0) return;
  if (pipe2(from, O_CLOEXEC) != 0) {
    close(to[0]);
    close(to[1]);
    return;
  }
  child_ = fork();
  if (child_ == 0) {
    setpgid(0, 0);  // a group of its own, so that what it starts ends with it
    dup2(to[1], 0);
    dup2(from[1], 1);
    execv(raw_arguments[0], raw_arguments.data());
    _exit(127);
  }
  if (child_ > 0) setpgid(child_, child_);  // whoever of both comes first
  close(to[1]);
  close(from[1]);
  input_ = to[0];
  output_ = from[0];
}

LineProcess::~LineProcess() {
  if (input_ >= 0) close(input_);
  if (output_ >= 0) close(output_);
  if (child_ > 0 && !wait_for(child_, kPatience)) end_child(child_, true);
}

bool LineProcess::write(const std::string& line, double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  const std::string text = line + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = send(input_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!ready(input_, POLLOUT, end)) return false;
      continue;
    }
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

std::optional<std::string> LineProcess::read(double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::size_t seen = 0;  // of the buffer, without a line's end
  for (;;) {
    if (const std::size_t newline = buffer_.find('\n', seen); newline != std::string::npos) {
      std::string line = buffer_.substr(0, newline);
      buffer_.erase(0, newline + 1);
      seen = 0;
      if (!std::exchange(dropping_, false)) return line;
      continue;
    }
    if (buffer_.size() > kMostLine) {
      if (!std::exchange(dropping_, true)) ++overlong_;
      buffer_.clear();
    }
    seen = buffer_.size();
    if (output_ < 0 || ended_ || !ready(output_, POLLIN, end)) return std::nullopt;
    char chunk[65536];
    const ssize_t n = ::read(output_, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    ended_ = n <= 0;
    if (ended_) return std::nullopt;
    buffer_.append(chunk, static_cast<std::size_t>(n));
  }
}

}  // namespace orrery::sim
