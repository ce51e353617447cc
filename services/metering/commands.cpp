#include <fmt/core.h>

#include <cstdio>

#include "services/metering/adapters/audit.hpp"
#include "services/metering/adapters/inputs.hpp"
#include "services/metering/adapters/price_file.hpp"
#include "services/metering/operator.hpp"
#include "services/metering/service.hpp"

namespace nodus::metering {

int complain(const Error& error, int code) {
  fmt::print(stderr, "nodus-metering: {}\n", error.message);
  for (const auto& cause : error.causes) fmt::print(stderr, "  {}: {}\n", cause.field, cause.message);
  return code;
}

int print_checks(const std::vector<Check>& checks) {
  int64_t faults = 0;
  fmt::print("{:<58} {:>7}  {}\n", "CHECK", "FAULTS", "EXAMPLE");
  for (const auto& check : checks) {
    fmt::print("{:<58} {:>7}  {}\n", check.name, check.faults, check.example);
    faults += check.faults;
  }
  return faults == 0 ? 0 : 1;
}

int publish(const Config& config, const std::string& file) {
  const auto proposed = read_price_file(file);
  if (!proposed) return complain(proposed.error(), 1);
  Operator with(config);
  const auto names = publish_prices(with.pool, *proposed, with.clock.now(), config.price_lead);
  if (!names) return complain(names.error(), 1);
  for (const auto& name : *names) fmt::print("price version {}: published\n", name);
  if (names->empty()) fmt::print("nothing new: every version is published\n");
  return 0;
}

int run_audit(const Config& config) {
  Operator with(config);
  if (auto opened = with.open(config); !opened) return complain(opened.error(), kMissing);
  const auto checks = audit(with.pool, *with.log);
  if (!checks) return complain(checks.error(), 1);
  return print_checks(*checks);
}

int parked_list(const Config& config) {
  Operator with(config);
  const auto parked = bus::list_parked(with.pool, 1'000);
  if (!parked) return complain(parked.error(), 1);
  fmt::print("{:<10} {:<48} {:>8}  {:<40} {}\n", "TOPIC", "STREAM", "VERSION", "TYPE", "ERROR");
  for (const auto& p : *parked)
    fmt::print("{:<10} {:<48} {:>8}  {:<40} {}\n", p.message.topic, p.message.stream, p.message.version,
               p.message.type, p.error);
  return 0;
}

int parked_replay(const Config& config, const std::string& topic, const std::string& stream) {
  Operator with(config);
  if (auto opened = with.open(config); !opened) return complain(opened.error(), kMissing);
  const auto applied = bus::replay_parked(*with.log, with.pool, scheduler_route(*with.works), topic, stream);
  if (!applied) return complain(applied.error(), 1);
  fmt::print("{} applied\n", *applied);
  return 0;
}

int parked_skip(const Config& config, const std::string& topic, const std::string& stream) {
  Operator with(config);
  const auto skipped = bus::skip_parked(with.pool, topic, stream);
  if (!skipped) return complain(skipped.error(), 1);
  fmt::print("{} skipped\n", *skipped);
  return 0;
}

}  // namespace nodus::metering
