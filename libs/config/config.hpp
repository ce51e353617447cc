// Configuration: one YAML file, secrets from the environment. Every fault is reported at once, with its path;
// unknown keys are faults. A service declares each value once, with its default, and that declaration also
// feeds --print-config.
//
//   config::Reader in(*config::load_file(path));
//   options.listen = in.text("http.listen", "127.0.0.1:7400");
//   options.idle = in.duration("defaults.idleTimeout", 5min);
//   options.token = in.secret("NODUS_NODE_SECRET");
//   if (auto faults = in.finish(); !faults) → one line each on stderr, exit 2
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"

namespace nodus::config {

class Document;  // a parsed YAML mapping
Result<std::shared_ptr<const Document>> load_file(const std::string& path);
Result<std::shared_ptr<const Document>> load_text(std::string_view yaml);  // "" is an empty document

class Reader {
 public:
  explicit Reader(std::shared_ptr<const Document> document);
  ~Reader();
  // `path` is dotted. Without a default the value is required.
  std::string text(std::string_view path, std::optional<std::string> fallback = std::nullopt);
  std::string choice(std::string_view path, const std::vector<std::string>& allowed,
                     std::optional<std::string> fallback = std::nullopt);
  int64_t integer(std::string_view path, std::optional<int64_t> fallback, int64_t min, int64_t max);
  bool boolean(std::string_view path, std::optional<bool> fallback);
  Micros duration(std::string_view path, std::optional<Micros> fallback);        // "250ms", "30s", "5m", "2h"
  int64_t quantity(std::string_view path, std::optional<std::string> fallback);  // bytes: "10Gi", "512Mi"
  std::vector<std::string> texts(std::string_view path, std::vector<std::string> fallback);
  std::string secret(std::string_view environment_variable);  // required; never printed
  Result<void> finish();                                      // causes: one per fault
  std::string print() const;  // YAML of the effective values, secrets as "***"

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Shared with the API's validation.
Result<Micros> parse_duration(
    std::string_view text);                    // Go notation: "1h30m", "5m", "0s", "250ms"; not negative
std::string format_duration(Micros duration);  // shortest: "5m", "1h30m", "0s"
// Kubernetes quantities. cpu: "1", "250m", "0.5" → milli-vCPU. bytes: "1Gi", "500M", "1048576" → bytes.
// Sub-unit precision that cannot be kept is a fault, never rounded.
Result<int64_t> parse_cpu_milli(std::string_view text);
Result<int64_t> parse_bytes(std::string_view text);
std::string format_cpu(int64_t milli);    // "1", "250m"
std::string format_bytes(int64_t bytes);  // "2Gi", "512Mi", else plain digits

}  // namespace nodus::config
