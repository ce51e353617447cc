#include "libs/telemetry/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>
#include <utility>

namespace nodus::metrics {

namespace {

struct Callback {
  std::string name;
  std::string help;
  Labels labels;
  std::function<double()> read;
  std::mutex mutex;  // held while `read` runs, and to clear it: after the handle is gone it is never called
};

struct Metrics {
  prometheus::Registry registry;
  std::mutex mutex;
  std::vector<std::shared_ptr<Callback>> callbacks;
};

// Never destroyed: handles are plain pointers into it.
Metrics& all() {
  static Metrics& metrics = *new Metrics;
  return metrics;
}

void append(std::vector<prometheus::MetricFamily>& families, Callback& callback) {
  std::lock_guard lock(callback.mutex);
  if (!callback.read) return;
  prometheus::ClientMetric metric;
  metric.gauge.value = callback.read();
  for (const auto& [name, value] : callback.labels) metric.label.push_back({name, value});
  for (auto& family : families) {
    if (family.name != callback.name) continue;
    family.metric.push_back(std::move(metric));
    return;
  }
  prometheus::MetricFamily family;
  family.name = callback.name;
  family.help = callback.help;
  family.type = prometheus::MetricType::Gauge;
  family.metric.push_back(std::move(metric));
  families.push_back(std::move(family));
}

}  // namespace

void Counter::add(double by) {
  if (series) static_cast<prometheus::Counter*>(series)->Increment(by);
}
double Counter::value() const {
  return series ? static_cast<prometheus::Counter*>(series)->Value() : 0;
}
void Gauge::set(double to) {
  if (series) static_cast<prometheus::Gauge*>(series)->Set(to);
}
void Gauge::add(double by) {
  if (series) static_cast<prometheus::Gauge*>(series)->Increment(by);
}
double Gauge::value() const {
  return series ? static_cast<prometheus::Gauge*>(series)->Value() : 0;
}
void Histogram::observe(double value) {
  if (series) static_cast<prometheus::Histogram*>(series)->Observe(value);
}

Counter counter(const std::string& name, const std::string& help, const Labels& labels) {
  auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(all().registry);
  Counter made;
  made.series = &family.Add(labels);
  return made;
}

Gauge gauge(const std::string& name, const std::string& help, const Labels& labels) {
  auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(all().registry);
  Gauge made;
  made.series = &family.Add(labels);
  return made;
}

Histogram histogram(const std::string& name, const std::string& help, std::vector<double> buckets,
                    const Labels& labels) {
  auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(all().registry);
  Histogram made;
  made.series = &family.Add(labels, buckets);
  return made;
}

std::shared_ptr<void> gauge_callback(const std::string& name, const std::string& help,
                                     std::function<double()> read, const Labels& labels) {
  auto callback = std::make_shared<Callback>();
  callback->name = name;
  callback->help = help;
  callback->labels = labels;
  callback->read = std::move(read);
  std::lock_guard lock(all().mutex);
  all().callbacks.push_back(callback);
  return {static_cast<void*>(callback.get()), [callback](void*) {
            {
              std::lock_guard running(callback->mutex);
              callback->read = nullptr;
            }
            std::lock_guard registered(all().mutex);
            std::erase(all().callbacks, callback);
          }};
}

std::string render() {
  std::vector<prometheus::MetricFamily> families = all().registry.Collect();
  std::vector<std::shared_ptr<Callback>> callbacks;
  {
    std::lock_guard lock(all().mutex);
    callbacks = all().callbacks;
  }
  for (const auto& callback : callbacks) append(families, *callback);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace nodus::metrics
