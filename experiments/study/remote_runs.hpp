// Runs done by another process, which hands them on to a cluster: the protocol of protocol.hpp over its stdin and
// stdout. It may give back runs in any order; what it says to people goes to stderr.
#pragma once

#include <sys/types.h>

#include "experiments/study/runs.hpp"

namespace orrery::experiments::study {

class RemoteRuns {
 public:
  /// Starts `command` and waits for its greeting; `name` stands for it in messages. Throws sim::ConfigError if it does
  /// not come. `stop` (may be empty) ends runs early. The study must outlive it.
  RemoteRuns(const std::vector<std::string>& command, std::string name, const Study& study, std::function<bool()> stop);
  /// Ends the process.
  ~RemoteRuns();
  RemoteRuns(const RemoteRuns&) = delete;
  RemoteRuns& operator=(const RemoteRuns&) = delete;

  /// As ExecuteRuns says. Throws sim::ConfigError if the process ends before all is done.
  void operator()(std::span<const PreparedRun* const> runs, const std::function<void(std::size_t, RunOutcome)>& done);

 private:
  enum class Line : std::uint8_t { read, stopped, ended };
  void start(const std::vector<std::string>& command);
  Line next_line(std::string& line);
  bool write(std::string text) const;
  void kill() const;

  std::string name_;
  const Study& study_;
  std::function<bool()> stop_;
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
  std::string unread_;
  std::size_t taken_ = 0;  ///< of it
  std::int64_t next_id_ = 1;
};

}  // namespace orrery::experiments::study
