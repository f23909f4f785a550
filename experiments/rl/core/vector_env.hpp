// Many equal environments stepped together, on threads.
//
// Rows of all environments stand in flat arrays, environment after environment. What happens at an episode's end is
// said explicitly, by the names of Gymnasium 1.x (AutoresetMode):
// - next_step: the step that ends an episode shows its last observation; the next call ignores that environment's
//   action, resets it, and gives the first observation with reward 0 and no flag.
// - same_step: the step that ends an episode resets at once; it shows the first observation of the next episode beside
//   the ended one's reward and flags, and the last observation, mask-free, in `final_observations`.
//
// Environment i begins with its own seed; its k-th further episode has the seed episode_seed(seed_i, k). Each
// environment is stepped by one thread of a fixed share, so results are the same for any number of threads.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "experiments/rl/core/archive.hpp"
#include "experiments/rl/core/env.hpp"

namespace orrery::experiments::rl {

/// When the next episode of an environment begins: at the next step, in the step that ended the last, or when somebody
/// says so (begin_ended).
enum class Autoreset : std::uint8_t { next_step, same_step, by_hand };

/// Seed of the k-th episode after the first of an environment that began with `seed`; k = 0 is `seed` itself.
std::uint64_t episode_seed(std::uint64_t seed, std::uint64_t k);
/// Well-spread seed of the i-th environment of a run with that seed.
std::uint64_t env_seed(std::uint64_t seed, std::uint64_t i);

/// One step of n environments: rows of n.
struct VectorStep {
  std::vector<double> observations;                 ///< n * observation_size
  std::vector<double> rewards;                      ///< n * agents
  std::vector<std::uint8_t> masks;                  ///< n * mask_size; empty unless masked
  std::vector<double> advice;                       ///< n * action_size; empty where no rule advises
  std::vector<std::uint8_t> terminated, truncated;  ///< n
  std::vector<double> info;                         ///< n * figures
  std::vector<std::uint8_t> ended;                  ///< n: whether final_* hold something of this step (same_step)
  std::vector<double> final_observations;           ///< n * observation_size
  std::vector<double> final_info;                   ///< n * figures
};

/// Threads that call a piece of work together, again and again.
class Team {
 public:
  explicit Team(std::size_t threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  std::size_t size() const { return threads_.size() + 1; }
  /// Calls work(t) for t = 0 … size()-1, each on its own thread (0: the caller's); returns when all have. Of what they
  /// throw, the lowest thread's goes on.
  void run(const std::function<void(std::size_t)>& work);

 private:
  void loop(std::size_t thread);
  std::mutex mutex_;
  std::condition_variable begin_, end_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::vector<std::exception_ptr> errors_;
  std::uint64_t round_ = 0;
  std::size_t busy_ = 0;
  bool stop_ = false;
  std::vector<std::jthread> threads_;
};

class VectorEnv {
 public:
  /// At least one environment; all with specs of the same sizes.
  VectorEnv(std::vector<std::unique_ptr<Env>> envs, Autoreset mode, std::size_t threads = 1);

  const EnvSpec& spec() const { return envs_[0]->spec(); }
  std::size_t size() const { return envs_.size(); }

  /// Begins an episode in each environment, with a seed each or with env_seed(seed, i).
  const VectorStep& reset(std::span<const std::uint64_t> seeds);
  const VectorStep& reset(std::uint64_t seed);
  /// Takes each further; n * action_size numbers. Throws std::invalid_argument for an action that is not allowed, and
  /// std::logic_error before reset(). After an exception only reset() may be called.
  const VectorStep& step(std::span<const double> actions);
  const VectorStep& now() const { return now_; }
  /// From now on episodes that have ended wait for begin_ended().
  void begin_by_hand() { mode_ = Autoreset::by_hand; }
  /// Begins the next episode wherever one has ended, with the seed that `seed_of` says for the environment; it is asked
  /// in order, by this thread. now() then has what these episodes show, beside what the last step gave.
  const VectorStep& begin_ended(const std::function<std::uint64_t(std::size_t)>& seed_of);

  /// Where it stands: the seeds and actions of the episodes under way, which are played again when it is read.
  void state(Archive& archive);

 private:
  struct Place {
    std::uint64_t seed = 0, episode = 0;
    bool over = true;             ///< no episode is under way
    std::vector<double> actions;  ///< since the episode began
    void state(Archive& archive) { archive(seed, episode, over, actions); }
  };
  template <class Work>
  void for_each_env(Work work);
  void begin(std::size_t i);
  void show_begun(std::size_t i, const TimeStep& step);
  void step_one(std::size_t i, std::span<const double> action);
  void replay(std::size_t i);
  void show(std::size_t i, const TimeStep& step);

  std::vector<std::unique_ptr<Env>> envs_;
  Autoreset mode_;
  Team team_;
  std::vector<TimeStep> steps_;
  std::vector<Place> places_;
  VectorStep now_;
  bool begun_ = false;
};

}  // namespace orrery::experiments::rl
