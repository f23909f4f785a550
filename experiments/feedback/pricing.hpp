// What a call takes on a number of devices that share it in a given way: training and inference by the training
// system's stages, generation by the serving system's iterations.
//
// Training: each minibatch is a step of 2 x stages micro-batches (more where memory asks for it), 1F1B. Inference: a
// forward pass of as many micro-batches as stages. Generation: as many micro-batches as stages go round the pipeline;
// the prompts once, then a token a round; sequences that
// memory has no KV cache for wait for those before them (ReaLHF, arXiv 2406.14088, csrc/search).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/feedback/config.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/training/iteration.hpp"

namespace orrery::experiments::feedback {

/// How devices share a call.
struct Shape {
  std::int64_t data = 1, pipeline = 1, tensor = 1;
  std::int64_t devices() const { return data * pipeline * tensor; }
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

/// What a call takes, and what its devices draw for it beside their idle power: all of them together, moves of weights
/// not counted.
struct CallWork {
  double time_s = 0, energy_j = 0;
  CallWork& operator+=(const CallWork& other) {
    time_s += other.time_s;
    energy_j += other.energy_j;
    return *this;
  }
  CallWork times(double count) const { return {count * time_s, count * energy_j}; }
};

struct CallCost {
  std::string obstacle;       ///< why the devices cannot share it so; the rest is then empty
  double time_s = 0;          ///< in closed form, generation at its mean context
  double resident_bytes = 0;  ///< of a device: weights, and what training keeps beside them
  double working_bytes = 0;   ///< of a device, while the call runs
  std::int64_t micro_batches = 1;
  std::int64_t waves =
      1;  ///< of generation: so many batches, one after the other, where memory holds no more of the KV cache
};

class CallPricer {
 public:
  /// The config must outlive the pricer.
  explicit CallPricer(const FeedbackConfig& config);
  ~CallPricer();

  /// Worked out once for calls that do the same.
  const CallCost& cost(const Call& call, const Shape& shape);
  /// The same event by event: a training step's passes and messages, each generated token at its own context; of
  /// answers of unlike lengths, 64 stretches of tokens.
  CallWork run(const Call& call, const Shape& shape);
  /// Seconds in which weights that lie in the host's memory come to the call's devices, before it; 0: they do not.
  double load_s(const Call& call, const Shape& shape);
  /// Weights of a model, whole, bytes.
  double weight_bytes(std::size_t model) const;
  /// FLOPs of an iteration as ReaLHF counts them (base/monitor.py): every query head has keys and values of its own,
  /// the vocabulary counts twice, training is four forward passes.
  double counted_flops() const;

 private:
  struct Generation;

  CallCost price(const Call& call, const Shape& shape);
  CallCost train(std::size_t kind, const Shape& shape);
  CallCost infer(std::size_t kind, const Shape& shape);
  CallCost generate(std::size_t kind, const Shape& shape);
  training::Plan plan_of(const Shape& shape, std::int64_t copy_sequences, std::int64_t micro_batches) const;
  training::Plan training_plan(const Shape& shape, std::int64_t copy_sequences, std::int64_t micro_batches) const;
  training::StepCosts step(std::size_t kind, const training::Plan& plan);
  CallWork run_generation(std::size_t kind, const Shape& shape, std::int64_t waves);
  CallWork run_training(std::size_t kind, const Shape& shape, std::int64_t micro_batches);
  double inference_j(std::size_t kind, const Shape& shape, std::int64_t micro_batches);
  /// A stage's time for a micro-batch of generation; energy of all stages, of one copy.
  CallWork generated(std::size_t kind, const Shape& shape, std::int64_t sequences, std::int64_t context, bool prompt);
  /// Answers of unlike lengths, in so many stretches of tokens: a copy runs those of its sequences that are not at
  /// their end, and the copy that ends last decides.
  CallWork unlike_answers(std::size_t kind, const Shape& shape, std::int64_t waves, std::int64_t stretches);
  Generation& generation(std::size_t kind, std::int64_t tensor);

  const FeedbackConfig& config_;
  std::vector<std::unique_ptr<training::CostTable>> tables_;  ///< by kind of model
  std::map<std::pair<std::size_t, std::int64_t>, std::unique_ptr<Generation>> generations_;
  std::map<std::tuple<std::size_t, CallKind, Shape>, CallCost> known_;
};

}  // namespace orrery::experiments::feedback
