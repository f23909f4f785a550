#include "experiments/study/remote_runs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include "experiments/study/protocol.hpp"

namespace orrery::experiments::study {
namespace {

constexpr int kLookMs = 100;             ///< between looks at `stop`
constexpr std::size_t kWrite = 1 << 16;  ///< bytes that are written together

struct Pipe {
  int read = -1, write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  return {ends[0], ends[1]};
}

}  // namespace

RemoteRuns::RemoteRuns(const std::vector<std::string>& command, std::string name, const Study& study,
                       std::function<bool()> stop)
    : name_(std::move(name)), study_(study), stop_(std::move(stop)) {
  std::signal(SIGPIPE, SIG_IGN);  // a process that ended is an answer that does not come
  start(command);
  std::string greeting;
  write(protocol_header(study).dump() + "\n");
  if (next_line(greeting) == Line::read) return;
  kill();
  sim::throw_fault({name_, ""}, "expected a cluster that answers, found none");
}

RemoteRuns::~RemoteRuns() {
  ::close(to_);
  ::close(from_);
  int status = 0;
  waitpid(child_, &status, 0);
}

void RemoteRuns::start(const std::vector<std::string>& command) {
  std::vector<char*> raw;
  for (const std::string& word : command) raw.push_back(const_cast<char*>(word.c_str()));
  raw.push_back(nullptr);
  const Pipe in = make_pipe(), out = make_pipe();
  child_ = fork();
  if (child_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child_ == 0) {
    dup2(in.read, STDIN_FILENO);
    dup2(out.write, STDOUT_FILENO);
    execv(raw[0], raw.data());
    _exit(127);
  }
  ::close(in.read);
  ::close(out.write);
  to_ = in.write;
  from_ = out.read;
}

void RemoteRuns::kill() const {
  ::kill(child_, SIGTERM);
}

bool RemoteRuns::write(std::string text) const {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(to_, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}

RemoteRuns::Line RemoteRuns::next_line(std::string& line) {
  std::array<char, 1 << 16> buffer;
  std::size_t end = unread_.find('\n', taken_);
  while (end == std::string::npos) {
    if (stop_ && stop_()) return Line::stopped;
    pollfd ready{.fd = from_, .events = POLLIN};
    if (poll(&ready, 1, kLookMs) <= 0) continue;
    const ssize_t n = ::read(from_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Line::ended;
    unread_.erase(0, std::exchange(taken_, 0));
    const std::size_t before = unread_.size();
    unread_.append(buffer.data(), static_cast<std::size_t>(n));
    end = unread_.find('\n', before);
  }
  line.assign(unread_, taken_, end - taken_);
  taken_ = end + 1;
  return Line::read;
}

void RemoteRuns::operator()(std::span<const PreparedRun* const> runs,
                            const std::function<void(std::size_t, RunOutcome)>& done) {
  const std::int64_t first = next_id_;
  next_id_ += std::ssize(runs);
  // Both pipes hold little: one thread fills the one while this one empties the other.
  std::jthread writer([&] {
    std::string lines;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      lines += protocol_request(first + static_cast<std::int64_t>(i), *runs[i]) + "\n";
      if (lines.size() < kWrite && i + 1 < runs.size()) continue;
      if (!write(std::exchange(lines, {}))) return;
    }
  });
  std::vector<bool> answered(runs.size(), false);
  const auto broken = [&](const std::string& what) { sim::throw_fault({name_, ""}, what); };
  try {
    std::string line;
    for (std::size_t left = runs.size(); left > 0;) {
      const Line read = next_line(line);
      if (read == Line::stopped) return kill();  // and the writer's pipe breaks
      if (read == Line::ended) broken("the cluster is gone; what was done is in the store, the same command goes on");
      const sim::Node node = sim::parse_json(line, name_);
      const sim::Node* id = node.find("id");
      const std::int64_t place = id != nullptr && id->is_number() ? id->as_integer() - first : -1;
      if (place < 0 || place >= std::ssize(runs)) broken("expected an answer to a run that was asked for");
      const auto i = static_cast<std::size_t>(place);
      if (answered[i]) continue;  // a worker that was taken for lost
      answered[i] = true;
      --left;
      done(i, protocol_answer(node, study_.measures));
    }
  } catch (...) {
    kill();
    throw;
  }
}

}  // namespace orrery::experiments::study
