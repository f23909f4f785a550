// What changed code calls: each change has a number, and the environment says which is switched on (ORRERY_MUTANT).
// While tests are watched (ORRERY_MUTANTS_SEEN), each notes that it was reached, and whether both forms ever differed.
#pragma once

namespace orrery_mutant {

extern int chosen;           // -1: none
extern bool watching;
extern unsigned char* seen;  // two bytes a change: reached, made a difference

/// Whether change `n` is on; whether it would make a difference is noted by `note`.
inline bool on(int n) {
  if (watching) seen[2 * n] = 1;
  return n == chosen;
}

/// The same where it makes a difference whenever it is reached.
inline bool sure(int n) {
  if (watching) seen[2 * n] = seen[2 * n + 1] = 1;
  return n == chosen;
}

/// Notes a difference; for the left side of a comma.
inline void note(int n, bool differs) {
  if (differs) seen[2 * n + 1] = 1;
}

}  // namespace orrery_mutant
