// Protobuf reports what it cannot parse to stderr by itself; our faults say it, with file and place.
#pragma once

#include <google/protobuf/stubs/logging.h>

namespace orrery::models {

/// From here on protobuf says nothing.
inline void silence_protobuf() {
  static const auto before = google::protobuf::SetLogHandler(nullptr);
  (void)before;
}

}  // namespace orrery::models
