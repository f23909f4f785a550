#include "experiments/study/remote_runs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "experiments/study/protocol.hpp"

namespace orrery::experiments::study {
namespace {

constexpr int kLookMs = 100;  ///< between looks at `stop`

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
  start_process(command);
  std::string greeting;
  write(protocol_header(study).dump() + "\n");
  if (next_line(greeting) == Line::read) {
    writer_ = std::jthread([this] { write_orders(); });
    return;
  }
  kill();
  sim::throw_fault({name_, ""}, "expected a cluster that answers, found none");
}

RemoteRuns::~RemoteRuns() {
  if (!out_.empty()) kill();  // nobody waits for these: and a write that hangs ends
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_one();
  if (writer_.joinable()) writer_.join();
  ::close(to_);
  ::close(from_);
  int status = 0;
  waitpid(child_, &status, 0);
}

void RemoteRuns::start_process(const std::vector<std::string>& command) {
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

bool RemoteRuns::write(std::string_view text) const {
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

void RemoteRuns::start(std::span<const RunOrder> orders) {
  std::string lines;
  for (const RunOrder& order : orders) {
    lines += protocol_request(order.id, *order.run) + "\n";
    out_.insert(order.id);
    last_ = std::max(last_, order.id);
  }
  {
    const std::lock_guard lock(mutex_);
    unsent_ += lines;
  }
  changed_.notify_one();
}

void RemoteRuns::write_orders() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return end_ || !unsent_.empty(); });
    if (end_) return;
    const std::string text = std::exchange(unsent_, {});
    lock.unlock();
    if (!write(text)) return;  // a process that ended: its answers do not come either
    lock.lock();
  }
}

std::vector<RunDone> RemoteRuns::wait() {
  const auto broken = [&](const std::string& what) { sim::throw_fault({name_, ""}, what); };
  std::vector<RunDone> done;
  std::string line;
  while (done.empty() || has_line()) {
    const Line read = next_line(line);
    if (read == Line::stopped) return done;
    if (read == Line::ended) broken("the cluster is gone; what was done is in the store, the same command goes on");
    const sim::Node node = sim::parse_json(line, name_);
    const sim::Node* id = node.find("id");
    const std::int64_t number = id != nullptr && id->is_number() ? id->as_integer() : -1;
    if (number < 1 || number > last_) broken("expected an answer to a run that was asked for");
    if (out_.erase(number) > 0) done.push_back({number, protocol_answer(node, study_.measures)});  // else come twice
  }
  return done;
}

}  // namespace orrery::experiments::study
