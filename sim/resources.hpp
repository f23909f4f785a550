// All that processes share; see docs/explain/processes.md.
#pragma once

#include "sim/channel.hpp"
#include "sim/processor_sharing.hpp"
#include "sim/server.hpp"
#include "sim/signal.hpp"
#include "sim/token_pool.hpp"
