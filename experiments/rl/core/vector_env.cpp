#include "experiments/rl/core/vector_env.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "sim/base/mix.hpp"

namespace orrery::experiments::rl {
namespace {

/// Copies a row to its place in a flat array.
template <class T>
void put(std::vector<T>& rows, std::size_t i, const std::vector<T>& row) {
  std::copy(row.begin(), row.end(), rows.begin() + static_cast<std::ptrdiff_t>(i * row.size()));
}

}  // namespace

std::uint64_t episode_seed(std::uint64_t seed, std::uint64_t k) {
  return k == 0 ? seed : sim::mix64(sim::mix64(seed) + k);
}

std::uint64_t env_seed(std::uint64_t seed, std::uint64_t i) {
  return sim::mix64(sim::mix64(sim::mix64(seed)) ^ i);
}

Team::Team(std::size_t threads) : errors_(std::max<std::size_t>(threads, 1)) {
  for (std::size_t t = 1; t < threads; ++t) threads_.emplace_back([this, t] { loop(t); });
}

Team::~Team() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begin_.notify_all();
}

void Team::run(const std::function<void(std::size_t)>& work) {
  if (!threads_.empty()) {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    busy_ = threads_.size();
    ++round_;
    begin_.notify_all();
  }
  try {
    work(0);
  } catch (...) {
    errors_[0] = std::current_exception();
  }
  if (!threads_.empty()) {
    std::unique_lock lock(mutex_);
    end_.wait(lock, [&] { return busy_ == 0; });
  }
  std::exception_ptr first;
  for (std::exception_ptr& error : errors_)
    if (error) first = first ? first : std::exchange(error, nullptr), error = nullptr;
  if (first) std::rethrow_exception(first);
}

void Team::loop(std::size_t thread) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    begin_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    const auto* work = work_;
    lock.unlock();
    std::exception_ptr error;
    try {
      (*work)(thread);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    errors_[thread] = error;
    if (--busy_ == 0) end_.notify_one();
  }
}

VectorEnv::VectorEnv(std::vector<std::unique_ptr<Env>> envs, Autoreset mode, std::size_t threads)
    : envs_(std::move(envs)),
      mode_(mode),
      team_(std::clamp<std::size_t>(threads, 1, std::max<std::size_t>(envs_.size(), 1))) {
  if (envs_.empty()) throw std::invalid_argument("a vector environment needs an environment");
  const EnvSpec& spec = envs_[0]->spec();
  for (const auto& env : envs_)
    if (env->spec().observation_size() != spec.observation_size() || env->spec().action_size() != spec.action_size() ||
        env->spec().mask_size() != spec.mask_size() || env->spec().agents.size() != spec.agents.size())
      throw std::invalid_argument("environments of a vector must be alike");
  const std::size_t n = envs_.size();
  steps_.resize(n);
  places_.resize(n);
  now_.observations.resize(n * spec.observation_size());
  now_.final_observations.resize(n * spec.observation_size());
  now_.rewards.resize(n * spec.agents.size());
  now_.masks.resize(spec.masked ? n * spec.mask_size() : 0);
  now_.advice.resize(spec.rule.empty() ? 0 : n * spec.action_size());
  now_.terminated.resize(n);
  now_.truncated.resize(n);
  now_.ended.resize(n);
  now_.info.resize(n * spec.info.size());
  now_.final_info.resize(n * spec.info.size());
}

template <class Work>
void VectorEnv::for_each_env(Work work) {
  const std::size_t n = size(), threads = team_.size();
  team_.run([&](std::size_t t) {
    for (std::size_t i = t * n / threads; i < (t + 1) * n / threads; ++i) work(i);
  });
}

const VectorStep& VectorEnv::reset(std::span<const std::uint64_t> seeds) {
  if (seeds.size() != size()) throw std::invalid_argument("expected a seed an environment");
  std::fill(now_.ended.begin(), now_.ended.end(), std::uint8_t{0});
  for_each_env([&](std::size_t i) {
    places_[i] = {seeds[i], 0, true, {}};
    begin(i);
    show(i, steps_[i]);
  });
  begun_ = true;
  return now_;
}

const VectorStep& VectorEnv::reset(std::uint64_t seed) {
  std::vector<std::uint64_t> seeds;
  for (std::size_t i = 0; i < size(); ++i) seeds.push_back(env_seed(seed, i));
  return reset(seeds);
}

const VectorStep& VectorEnv::step(std::span<const double> actions) {
  if (!begun_) throw std::logic_error("a vector environment is stepped before it was reset");
  const std::size_t width = spec().action_size();
  if (actions.size() != size() * width) throw std::invalid_argument("expected an action an environment");
  begun_ = false;
  for_each_env([&](std::size_t i) { step_one(i, actions.subspan(i * width, width)); });
  begun_ = true;
  return now_;
}

/// Begins the next episode of an environment.
void VectorEnv::begin(std::size_t i) {
  Place& place = places_[i];
  envs_[i]->reset(episode_seed(place.seed, place.episode), steps_[i]);
  place.over = false;
  place.actions.clear();
}

void VectorEnv::step_one(std::size_t i, std::span<const double> action) {
  Place& place = places_[i];
  TimeStep& step = steps_[i];
  now_.ended[i] = 0;
  if (place.over && mode_ == Autoreset::by_hand)
    throw std::logic_error("an episode that has ended is stepped before the next was begun");
  if (place.over) {  // next_step: the action is ignored
    ++place.episode;
    begin(i);
    show(i, step);
    return;
  }
  check_action(spec(), step.mask, action);
  envs_[i]->step(action, step);
  place.actions.insert(place.actions.end(), action.begin(), action.end());
  show(i, step);
  if (!step.ended()) return;
  place.over = mode_ != Autoreset::same_step;
  if (mode_ == Autoreset::next_step) return;
  now_.ended[i] = 1;
  put(now_.final_observations, i, step.observation);
  put(now_.final_info, i, step.info);
  if (place.over) return;
  ++place.episode;
  begin(i);
  show_begun(i, step);
}

/// Beside the rewards and the end of the episode before.
void VectorEnv::show_begun(std::size_t i, const TimeStep& step) {
  put(now_.observations, i, step.observation);
  put(now_.masks, i, step.mask);
  put(now_.advice, i, step.advice);
  put(now_.info, i, step.info);
}

const VectorStep& VectorEnv::begin_ended(const std::function<std::uint64_t(std::size_t)>& seed_of) {
  std::vector<std::uint8_t> begins(size(), 0);
  for (std::size_t i = 0; i < size(); ++i) {
    if (!places_[i].over) continue;
    places_[i].seed = seed_of(i);
    places_[i].episode = 0;
    begins[i] = 1;
  }
  if (std::ranges::find(begins, 1) == begins.end()) return now_;
  begun_ = false;
  for_each_env([&](std::size_t i) {
    if (begins[i] == 0) return;
    begin(i);
    show_begun(i, steps_[i]);
  });
  begun_ = true;
  return now_;
}

void VectorEnv::show(std::size_t i, const TimeStep& step) {
  put(now_.observations, i, step.observation);
  put(now_.rewards, i, step.rewards);
  put(now_.masks, i, step.mask);
  put(now_.advice, i, step.advice);
  put(now_.info, i, step.info);
  now_.terminated[i] = step.terminated ? 1 : 0;
  now_.truncated[i] = step.truncated ? 1 : 0;
}

void VectorEnv::replay(std::size_t i) {
  const Place& place = places_[i];
  envs_[i]->reset(episode_seed(place.seed, place.episode), steps_[i]);
  const std::size_t width = spec().action_size();
  for (std::size_t at = 0; at < place.actions.size(); at += width)
    envs_[i]->step(std::span(place.actions).subspan(at, width), steps_[i]);
  show(i, steps_[i]);
}

void VectorEnv::state(Archive& archive) {
  archive(begun_);
  std::vector<Place> places = places_;
  archive(places);
  if (!archive.reading()) return;
  if (places.size() != size()) throw std::runtime_error("checkpoint: another number of environments");
  places_ = std::move(places);
  std::fill(now_.ended.begin(), now_.ended.end(), std::uint8_t{0});
  for_each_env([&](std::size_t i) { replay(i); });
}

}  // namespace orrery::experiments::rl
