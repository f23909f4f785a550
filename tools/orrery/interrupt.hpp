// Ctrl-C and SIGTERM as a flag that long commands look at between steps.
#pragma once

#include <csignal>

namespace orrery::tools {

inline volatile std::sig_atomic_t g_interrupted = 0;

/// From here on the two signals set g_interrupted and do nothing else.
inline void watch_for_interrupts() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { g_interrupted = 1; });
}

}  // namespace orrery::tools
