// Times the steps of a start, for one line in the debug log and a metric a step.
#pragma once

#include <chrono>
#include <string>

#include "libs/telemetry/metrics.hpp"

namespace nodus::executor {

class StepTimer {
 public:
  void done(const std::string& step) {
    const auto now = std::chrono::steady_clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    text_ += (text_.empty() ? "" : " ") + step + "=" +
             std::to_string(static_cast<int64_t>(ms * 10) / 10.0).substr(0, 5);
    metrics::histogram("nodus_node_step_seconds", "Time of one step of a start or a stop",
                       {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
                       {{"step", step}})
        .observe(ms / 1000);
  }
  const std::string& text() const { return text_; }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::string text_;
};

}  // namespace nodus::executor
