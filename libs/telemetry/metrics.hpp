// Metrics of this process, in Prometheus' text format. The owner of prometheus-cpp. Names:
// nodus_<part>_<what>_<unit>. Handles are cheap to keep and thread-safe; the same name and labels give the
// same time series.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace nodus::metrics {

using Labels = std::map<std::string, std::string>;

class Counter {
 public:
  void add(double by = 1);
  double value() const;
  void* series = nullptr;
};
class Gauge {
 public:
  void set(double to);
  void add(double by);
  double value() const;
  void* series = nullptr;
};
class Histogram {
 public:
  void observe(double value);
  void* series = nullptr;
};

Counter counter(const std::string& name, const std::string& help, const Labels& labels = {});
Gauge gauge(const std::string& name, const std::string& help, const Labels& labels = {});
Histogram histogram(const std::string& name, const std::string& help, std::vector<double> buckets,
                    const Labels& labels = {});
// Read when scraped. The returned handle unregisters when it goes away.
std::shared_ptr<void> gauge_callback(const std::string& name, const std::string& help,
                                     std::function<double()> read, const Labels& labels = {});
std::string render();  // for GET /metrics

}  // namespace nodus::metrics
