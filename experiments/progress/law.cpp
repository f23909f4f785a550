#include "experiments/progress/law.hpp"

#include <cmath>
#include <limits>

namespace orrery::experiments::progress {

LawLoss law_loss(const LossLaw& law, double parameters, double tokens, double batch_tokens) {
  LawLoss found;
  found.of_size = law.size / std::pow(parameters, law.size_exponent);
  found.of_data = law.data / std::pow(tokens, law.data_exponent);
  // From below: a higher loss has a smaller critical batch, which leaves a higher loss, up to the one that agrees.
  found.loss = law.floor + found.of_size + found.of_data;
  bool agrees = false;
  for (int i = 0; i < 1000 && !agrees; ++i) {
    found.critical_batch = law.batch / std::pow(found.loss, 1 / law.batch_exponent);
    found.counted_tokens = tokens / (1 + batch_tokens / found.critical_batch);
    const double next = law.floor + found.of_size + law.data / std::pow(found.counted_tokens, law.data_exponent);
    agrees = next - found.loss <= 1e-12 * next;
    found.loss = next;
  }
  if (!agrees) found.loss = std::numeric_limits<double>::infinity();
  found.of_batch = found.loss - law.floor - found.of_size - found.of_data;
  return found;
}

}  // namespace orrery::experiments::progress
