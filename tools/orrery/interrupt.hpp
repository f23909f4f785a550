// Ctrl-C, SIGTERM and SIGHUP as a flag that long commands look at between steps; a step that lasts too long is left.
#pragma once

#include <unistd.h>

#include <csignal>

namespace orrery::tools {

inline constexpr int kInterrupted = 130;  ///< exit code
inline volatile std::sig_atomic_t g_interrupted = 0;

/// From here on the signals set g_interrupted; whoever looks at it leaves nothing unfinished behind. A second signal,
/// or a second without a look, ends the process: what a run leaves unfinished then goes with the next run there. A
/// signal that is ignored already (SIGHUP under nohup) stays so.
inline void watch_for_interrupts() {
  std::signal(SIGALRM, [](int) { _exit(kInterrupted); });
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto before = std::signal(signal, [](int) {
      if (g_interrupted != 0) _exit(kInterrupted);
      g_interrupted = 1;
      alarm(1);
    });
    if (before == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

}  // namespace orrery::tools
