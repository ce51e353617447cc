#include "services/metering/config.hpp"

#include <algorithm>
#include <cstdlib>

namespace nodus::metering {

namespace {

constexpr size_t kShortestToken = 32;

// Money time is whole seconds, so these durations are too.
Seconds whole_seconds(config::Reader& in, const char* path, Seconds fallback, std::vector<Cause>& faults) {
  const Micros value = in.duration(path, fallback);
  const auto seconds = std::chrono::duration_cast<Seconds>(value);
  if (seconds != value || seconds.count() > 86'400)
    faults.push_back({path, "FieldValueInvalid", "must be whole seconds, at most a day"});
  return seconds;
}

bool is_issuer(const std::string& text) {
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && text.size() <= 16 && std::ranges::all_of(text, fine);
}

}  // namespace

Result<Config> read_config(const std::string& path, std::string* printed, bool serving) {
  auto document = config::load_file(path);
  if (!document) return std::unexpected(std::move(document.error()));
  config::Reader in(*document);
  std::vector<Cause> faults;
  Config out;
  out.http.listen = in.text("http.listen", "127.0.0.1:7402");
  out.http.workers = static_cast<int>(in.integer("http.workers", 4, 1, 256));
  out.database.url = in.text("database.url");
  out.database.schema = "metering";
  out.database.application_name = "nodus-metering";
  out.pool = static_cast<int>(in.integer("database.pool", 8, 4, 200));
  out.log_partitions = static_cast<int>(in.integer("log.partitions", 4, 1, 64));
  out.log_level = in.text("log.level", "info");
  out.bus.kind = in.choice("bus.kind", {"log", "kafka"}, "log");
  out.bus.kafka_brokers = in.text("bus.kafkaBrokers", "");
  out.bus.partitions = out.log_partitions;
  out.durations.hold = whole_seconds(in, "money.hold", Seconds(75), faults);
  out.durations.stop_reserve = whole_seconds(in, "money.stopReserve", Seconds(15), faults);
  out.price_lead = in.duration("prices.lead", std::chrono::minutes(5));
  out.invoice_issuer = in.text("invoice.issuer", "NODUS");
  if (!is_issuer(out.invoice_issuer))
    faults.push_back({"invoice.issuer", "FieldValueInvalid", "must be 1 to 16 letters and digits"});
  out.deadlines.poll = std::chrono::ceil<Millis>(in.duration("deadlines.poll", Millis(500)));
  out.deadlines.bus_patience = in.duration("deadlines.busPatience", std::chrono::minutes(1));
  if (serving) out.identity_secret = in.secret("NODUS_IDENTITY_SECRET");
  if (const char* secret = std::getenv("NODUS_STRIPE_SECRET")) out.stripe_secret = secret;
  if (const char* token = std::getenv("NODUS_OPERATOR_TOKEN")) out.operator_token = token;
  if (!out.operator_token.empty() && out.operator_token.size() < kShortestToken)
    faults.push_back({"NODUS_OPERATOR_TOKEN", "FieldValueInvalid", "must have at least 32 characters"});
  if (printed) *printed = in.print();
  if (out.durations.stop_reserve >= out.durations.hold)
    faults.push_back({"money.stopReserve", "FieldValueInvalid", "must be less than money.hold"});
  if (auto read = in.finish(); !read) {
    auto error = std::move(read.error());
    error.causes.insert(error.causes.end(), faults.begin(), faults.end());
    return std::unexpected(std::move(error));
  }
  if (!faults.empty()) {
    Error error{Code::kInvalid, "ConfigurationInvalid", "The configuration has faults."};
    error.causes = std::move(faults);
    return std::unexpected(std::move(error));
  }
  return out;
}

}  // namespace nodus::metering
