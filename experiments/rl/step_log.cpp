#include "experiments/rl/step_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "experiments/rl/policy_file.hpp"
#include "sim/base/document.hpp"

namespace orrery::experiments::rl {
namespace {

const std::string kStepLog = "logged steps";

template <class Rows, class More>
void append_rows(Rows& rows, const More& more, std::size_t all, std::size_t n) {
  if (more.empty()) return;
  const std::size_t width = more.size() / all;
  rows.insert(rows.end(), more.begin(), more.begin() + static_cast<std::ptrdiff_t>(n * width));
}

template <class T>
std::span<const T> part(const std::vector<T>& rows, std::size_t all, std::size_t begin, std::size_t n) {
  const std::size_t width = rows.size() / all;
  return std::span(rows).subspan(begin * width, n * width);
}

}  // namespace

void StepLog::add(const Experience& experience, std::size_t most) {
  const std::size_t all = experience.before.n, n = std::min(all, most);
  append_rows(before_, experience.before.observations, all, n);
  append_rows(after_, experience.after.observations, all, n);
  append_rows(masks_, experience.before.masks, all, n);
  append_rows(after_masks_, experience.after.masks, all, n);
  append_rows(actions_, experience.actions, all, n);
  append_rows(rewards_, experience.rewards, all, n);
  append_rows(terminated_, experience.terminated, all, n);
  append_rows(truncated_, experience.truncated, all, n);
}

void StepLog::add(const StepLog& other) {
  if (other.size() > 0) add(other.rows(0, other.size()), other.size());
}

Experience StepLog::rows(std::size_t begin, std::size_t n) const {
  const auto doubles = [&](const std::vector<double>& rows) { return part(rows, size(), begin, n); };
  const auto bytes = [&](const std::vector<std::uint8_t>& rows) { return part(rows, size(), begin, n); };
  return {{n, doubles(before_), bytes(masks_), doubles(actions_)},
          doubles(actions_),
          doubles(rewards_),
          bytes(terminated_),
          bytes(truncated_),
          {n, doubles(after_), bytes(after_masks_)}};
}

void StepLog::state(Archive& archive) {
  archive(before_, after_, actions_, rewards_, terminated_, truncated_, masks_, after_masks_);
  const std::size_t n = size();
  if (before_.size() != n * spec_.observation_size() || after_.size() != before_.size() ||
      actions_.size() != n * spec_.action_size() || rewards_.size() != n * spec_.agents.size() ||
      truncated_.size() != n || masks_.size() != (spec_.masked ? n * spec_.mask_size() : 0) ||
      after_masks_.size() != masks_.size())
    throw std::runtime_error("logged steps: rows of other lengths than the spaces say");
}

std::uint64_t StepLog::hash() const {
  StepLog copy = *this;
  Archive archive;
  copy.state(archive);
  return sim::hash_text(archive.bytes());
}

void write_step_log(const std::filesystem::path& path, const StepLog& log) {
  StepLog steps = log;
  std::string spec = written_spec(log.spec()).dump();
  Archive archive;
  archive(spec, steps);
  write_checkpoint(path, kStepLog, archive);
}

StepLog read_step_logs(const std::vector<std::string>& paths, const EnvSpec& spec) {
  StepLog all(spec);
  for (const std::string& path : paths) {
    const sim::Origin here{path, ""};
    if (!is_checkpoint(path, kStepLog))
      sim::throw_fault(here, "expected steps that a training has logged (seed-N.steps)",
                       "`orrery train` with train.log writes them");
    StepLog log;
    try {
      Archive archive = read_checkpoint(path, kStepLog);
      std::string text;
      archive(text);
      log = StepLog(read_spec(sim::parse_json(text, path)));
      archive(log);
      archive.finish();
    } catch (const sim::ConfigError&) {
      throw;
    } catch (const std::runtime_error&) {
      sim::throw_fault(here, "the logged steps are not whole");
    }
    std::string other = spaces_differ(log.spec(), spec);
    if (other.empty() && log.spec().mask_size() != spec.mask_size())
      other = fmt::format("{} choices, not {}", log.spec().mask_size(), spec.mask_size());
    if (!other.empty()) sim::throw_fault(here, "the steps were logged in other spaces: " + other);
    all.add(log);
  }
  if (all.size() == 0) sim::throw_fault({paths.empty() ? "" : paths.front(), ""}, "the logs hold no step");
  return all;
}

}  // namespace orrery::experiments::rl
