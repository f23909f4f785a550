// System `transactions`: a batch of transactions, the order that a policy gives them, and how long they take.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System transactions_system();

}  // namespace orrery::experiments
