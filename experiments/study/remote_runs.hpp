// Runs done by another process, which hands them on to a cluster: the protocol of protocol.hpp over its stdin and
// stdout. It may give back runs in any order; what it says to people goes to stderr.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>

#include "experiments/study/runs.hpp"

namespace orrery::experiments::study {

class RemoteRuns final : public Executor {
 public:
  /// Starts `command` and waits for its greeting; `name` stands for it in messages. Throws sim::ConfigError if it does
  /// not come. `stop` (may be empty) ends runs early. The study must outlive it.
  RemoteRuns(const std::vector<std::string>& command, std::string name, const Study& study, std::function<bool()> stop);
  /// Ends the process.
  ~RemoteRuns() override;
  RemoteRuns(const RemoteRuns&) = delete;
  RemoteRuns& operator=(const RemoteRuns&) = delete;

  void start(std::span<const RunOrder> orders) override;
  /// Throws sim::ConfigError if the process ends before all is done.
  std::vector<RunDone> wait() override;

 private:
  enum class Line : std::uint8_t { read, stopped, ended };
  void start_process(const std::vector<std::string>& command);
  Line next_line(std::string& line);
  bool has_line() const { return unread_.find('\n', taken_) != std::string::npos; }
  bool write(std::string_view text) const;
  void write_orders();
  void kill() const;

  std::string name_;
  const Study& study_;
  std::function<bool()> stop_;
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
  std::string unread_;
  std::size_t taken_ = 0;       ///< of it
  std::set<std::int64_t> out_;  ///< runs whose answers have not come
  std::int64_t last_ = 0;       ///< the largest number of a run so far

  // Both pipes hold little: a thread fills the one while the owner empties the other.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string unsent_;
  bool end_ = false;
  std::jthread writer_;
};

}  // namespace orrery::experiments::study
