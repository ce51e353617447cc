#include "services/metering/adapters/sealer.hpp"

#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/metering/adapters/postgres/ledger.hpp"

namespace nodus::metering {

namespace {
constexpr Millis kLook = std::chrono::minutes(5);
}

Millis Sealer::step() {
  static auto failures =
      metrics::counter("nodus_metering_seal_failures_total", "Looks at the ledger's seals that failed");
  const auto failed = [](const Error& error) {
    failures.add();
    log::warn("metering.seal_waits", {{"error", error.message}});
    return kLook;
  };
  const Instant now = clock_.now();
  const auto last = last_sealed(pool_);
  if (!last) return failed(last.error());
  using Days = std::chrono::days;
  if (*last && std::chrono::floor<Days>(**last) == std::chrono::floor<Days>(now)) return kLook;
  const auto sealed = seal_ledger(pool_, now);
  if (!sealed) return failed(sealed.error());
  if (sealed->entries > 0)
    log::info("metering.ledger_sealed", {{"entries", sealed->entries}, {"head", sealed->head}});
  return kLook;
}

}  // namespace nodus::metering
