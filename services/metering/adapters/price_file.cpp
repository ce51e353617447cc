#include "services/metering/adapters/price_file.hpp"

#include "libs/config/config.hpp"
#include "services/metering/adapters/postgres/rows.hpp"

namespace nodus::metering {

namespace {

constexpr size_t kMaxVersions = 1'000;

class Faults {
 public:
  void add(const std::string& field, const std::string& message) {
    error_.causes.push_back({field, "FieldValueInvalid", message});
  }
  Money price(const std::string& field, const std::string& text) {
    if (text.empty()) return Money();  // reported as missing
    const auto money = Money::parse(text);
    if (!money) {
      add(field, money.error().message);
    } else if (*money < Money() || *money > Money::from_pico(1'000'000'000'000)) {
      add(field, "must be 0 to 1 USD per second");
    }
    return money.value_or(Money());
  }
  Instant instant(const std::string& field, const std::string& text) {
    if (text.empty()) return {};
    const auto at = parse_rfc3339(text);
    if (!at) add(field, at.error().message);
    return at.value_or(Instant());
  }
  Error error_{Code::kInvalid, "PriceFileInvalid", "The price file has faults."};
};

constexpr size_t kMaxMachineTypes = 200;

std::map<std::string, Money> read_machines(config::Reader& in, const std::string& at, Faults& faults) {
  std::map<std::string, Money> machines;
  const auto types = in.texts(at + "machineTypes", {});
  if (types.size() > kMaxMachineTypes) faults.add(at + "machineTypes", "must name at most 200 types");
  for (const auto& type : types) {
    const std::string field = at + "machinePerSecond." + type;
    if (type.empty() || type.size() > 64 || type.find('.') != std::string::npos)
      faults.add(at + "machineTypes", "a type is named by 1 to 64 characters without a dot");
    else if (!machines.emplace(type, faults.price(field, in.text(field))).second)
      faults.add(at + "machineTypes", "names " + type + " twice");
  }
  return machines;
}

Result<std::vector<PriceVersion>> read_document(std::shared_ptr<const config::Document> document) {
  config::Reader in(std::move(document));
  Faults faults;
  std::vector<PriceVersion> versions;
  const auto names = in.texts("versions", {});
  if (names.empty() || names.size() > kMaxVersions) faults.add("versions", "must name 1 to 1000 versions");
  for (const auto& name : names) {
    if (name.empty() || name.size() > 64 || name.find('.') != std::string::npos) {
      faults.add("versions", "a version is named by 1 to 64 characters without a dot");
      continue;
    }
    const std::string at = "prices." + name + ".";
    const auto text = [&](const char* key) { return in.text(at + key); };
    const std::string storage = in.text(at + "storagePerGibSecond", "0");
    versions.push_back({name, faults.instant(at + "effectiveAt", text("effectiveAt")),
                        faults.price(at + "cpuPerVcpuSecond", text("cpuPerVcpuSecond")),
                        faults.price(at + "memoryPerGibSecond", text("memoryPerGibSecond")),
                        faults.price(at + "diskPerGibSecond", text("diskPerGibSecond")),
                        faults.price(at + "storagePerGibSecond", storage), read_machines(in, at, faults)});
  }
  if (auto finished = in.finish(); !finished)
    std::ranges::move(finished.error().causes, std::back_inserter(faults.error_.causes));
  if (!faults.error_.causes.empty()) return std::unexpected(std::move(faults.error_));
  return versions;
}

}  // namespace

Result<std::vector<PriceVersion>> read_price_file(const std::string& path) {
  auto document = config::load_file(path);
  if (!document) return std::unexpected(std::move(document.error()));
  return read_document(std::move(*document));
}

Result<std::vector<PriceVersion>> read_price_text(const std::string& yaml) {
  auto document = config::load_text(yaml);
  if (!document) return std::unexpected(std::move(document.error()));
  return read_document(std::move(*document));
}

Result<std::vector<std::string>> publish_prices(pg::Pool& pool, const std::vector<PriceVersion>& proposed,
                                                Instant now, Micros lead) {
  return pool.with_tx([&](pg::Tx& tx) -> Result<std::vector<std::string>> {
    tx.exec("LOCK TABLE prices IN SHARE ROW EXCLUSIVE MODE");
    const auto fresh = to_publish(read_prices(tx), proposed, now, lead);
    if (!fresh) return std::unexpected(fresh.error());
    std::vector<std::string> names;
    for (const auto& version : *fresh) {
      tx.exec_params(
          "INSERT INTO prices (version, effective_us, cpu_per_vcpu_s, memory_per_gib_s, disk_per_gib_s,"
          " published_us, storage_per_gib_s) VALUES ($1, $2, $3, $4, $5, $6, $7)",
          version.version, to_micros(version.effective_at), version.cpu_per_vcpu_s.to_decimal(),
          version.memory_per_gib_s.to_decimal(), version.disk_per_gib_s.to_decimal(), to_micros(now),
          version.storage_per_gib_s.to_decimal());
      for (const auto& [type, price] : version.machines)
        tx.exec_params("INSERT INTO machine_prices (version, machine_type, per_s) VALUES ($1, $2, $3)",
                       version.version, type, price.to_decimal());
      names.push_back(version.version);
    }
    return names;
  });
}

}  // namespace nodus::metering
