#include "services/executor/adapters/linux/slot_store.hpp"

#include <unistd.h>

#include <boost/json.hpp>
#include <stdexcept>

#include "libs/base/random.hpp"
#include "libs/linux/files.hpp"
#include "libs/telemetry/log.hpp"

namespace nodus::executor {
namespace fs = std::filesystem;
namespace json = boost::json;

static json::value restore_point_json(const std::optional<RestorePoint>& point) {
  if (!point) return nullptr;
  return json::object{{"object", point->object},
                      {"sha256", point->sha256},
                      {"sizeBytes", point->size_bytes},
                      {"takenAtUs", to_micros(point->taken_at)}};
}

static std::string text_of(const json::value& value) {
  return json::value_to<std::string>(value);
}

static std::optional<RestorePoint> read_restore_point(const json::value& value) {
  if (value.is_null()) return std::nullopt;
  return RestorePoint{text_of(value.at("object")), text_of(value.at("sha256")),
                      value.at("sizeBytes").to_number<int64_t>(),
                      from_micros(value.at("takenAtUs").to_number<int64_t>())};
}

static json::object intent_json(const SlotRecord& record) {
  const Order& order = record.order;
  return {{"sandbox", order.key.sandbox.str()},
          {"epoch", order.key.epoch},
          {"start", order.start},
          {"org", order.org},
          {"project", order.project},
          {"name", order.name},
          {"image", order.image},
          {"imageDigest", order.image_digest},
          {"cpuMilli", order.shape.cpu_milli},
          {"memoryBytes", order.shape.memory_bytes},
          {"diskBytes", order.shape.disk_bytes},
          {"openEgress", order.open_egress},
          {"ephemeral", order.ephemeral},
          {"workingDir", order.working_dir},
          {"restorePoint", restore_point_json(order.restore_point)},
          {"networkIndex", record.network_index}};
}

static void read_intent(const json::value& value, SlotRecord& record) {
  Order& order = record.order;
  order.key = {SandboxUid(text_of(value.at("sandbox"))), value.at("epoch").to_number<int64_t>()};
  order.start = value.at("start").to_number<int64_t>();
  order.org = text_of(value.at("org"));
  order.project = text_of(value.at("project"));
  order.name = text_of(value.at("name"));
  order.image = text_of(value.at("image"));
  order.image_digest = text_of(value.at("imageDigest"));
  order.shape = {value.at("cpuMilli").to_number<int64_t>(), value.at("memoryBytes").to_number<int64_t>(),
                 value.at("diskBytes").to_number<int64_t>()};
  order.open_egress = value.at("openEgress").as_bool();
  order.ephemeral = value.at("ephemeral").as_bool();
  order.working_dir = text_of(value.at("workingDir"));
  order.restore_point = read_restore_point(value.at("restorePoint"));
  record.network_index = value.at("networkIndex").to_number<int>();
}

static json::object state_json(const SlotRecord& record) {
  return {{"phase", static_cast<int>(record.phase)},
          {"ran", record.ran},
          {"discard", record.discard},
          {"failure", record.failure},
          {"message", record.message},
          {"saved", restore_point_json(record.saved)}};
}

static void read_state(const json::value& value, SlotRecord& record) {
  const int phase = value.at("phase").to_number<int>();
  if (phase < 0 || phase > static_cast<int>(Phase::kFailed)) throw std::out_of_range("phase");
  record.phase = static_cast<Phase>(phase);
  record.ran = value.at("ran").as_bool();
  record.discard = value.at("discard").as_bool();
  record.failure = text_of(value.at("failure"));
  record.message = text_of(value.at("message"));
  record.saved = read_restore_point(value.at("saved"));
}

SlotStore::SlotStore(fs::path state_directory) : state_(std::move(state_directory)) {}

fs::path SlotStore::directory(const SlotKey& slot) const {
  return state_ / "slots" / slot.text();
}

// Not every state is flushed, so a power cut may leave an empty file. How far the slot came is not known
// then: it is destroyed, and the machine goes on with the others.
static void read_state_or_give_up(const fs::path& path, SlotRecord& record) {
  auto bytes = linux::read_file(path);
  if (!bytes) return;  // cut off before its first state
  const SlotRecord begun = record;
  try {
    read_state(json::parse(*bytes), record);
  } catch (const std::exception& fault) {
    log::error("slot.state.unreadable", {{"slot", record.order.key.text()}, {"message", fault.what()}});
    record = begun;
    record.phase = Phase::kStopping;
    record.discard = true;
    record.failure = "Crashed";
    record.message = "The machine lost the state of the Sandbox.";
  }
}

Result<void> SlotStore::create(const SlotRecord& record) {
  const auto path = directory(record.order.key);
  if (auto made = linux::make_directories(path); !made) return made;
  return linux::write_file_durably(path / "intent.json", json::serialize(intent_json(record)));
}

Result<void> SlotStore::save_state(const SlotRecord& record, bool durably) {
  const auto path = directory(record.order.key) / "state.json";
  const auto bytes = json::serialize(state_json(record));
  if (durably) return linux::write_file_durably(path, bytes);
  const fs::path temporary = path.native() + ".new";
  if (auto written = linux::write_file(temporary, bytes); !written) return written;
  std::error_code error;
  fs::rename(temporary, path, error);
  if (error)
    return fail(Code::kInternal, "SystemCallFailed", "rename " + path.native() + ": " + error.message());
  return {};
}

Result<void> SlotStore::remove(const SlotKey& slot) {
  const auto path = directory(slot);
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
    if (it->path().filename() != "intent.json")
      if (auto removed = linux::remove_tree(it->path()); !removed) return removed;
  return linux::remove_tree(path);
}

Result<std::vector<SlotRecord>> SlotStore::load() {
  std::vector<SlotRecord> records;
  std::error_code error;
  for (fs::directory_iterator it(state_ / "slots", error), end; !error && it != end; it.increment(error)) {
    try {
      SlotRecord record;
      auto intent = linux::read_file(it->path() / "intent.json");
      if (!intent) {  // cut off before the intent was there: nothing was made in it
        if (auto removed = linux::remove_tree(it->path()); !removed) return std::unexpected(removed.error());
        continue;
      }
      read_intent(json::parse(*intent), record);
      read_state_or_give_up(it->path() / "state.json", record);
      records.push_back(std::move(record));
    } catch (const std::exception& fault) {
      return fail(Code::kInternal, "StateUnreadable",
                  it->path().native() + " cannot be read (" + fault.what() + "); repair or remove it.");
    }
  }
  return records;
}

Result<std::string> SlotStore::incarnation() {
  auto boot = linux::read_file("/proc/sys/kernel/random/boot_id");
  if (!boot) return boot;
  if (auto kept = linux::read_file(state_ / "incarnation"); kept && kept->starts_with(*boot))
    return kept->substr(boot->size());
  return renew();
}

Result<std::string> SlotStore::renew() {
  auto boot = linux::read_file("/proc/sys/kernel/random/boot_id");
  if (!boot) return boot;
  std::string fresh = random_uuid();
  if (auto written = linux::write_file_durably(state_ / "incarnation", *boot + fresh); !written)
    return std::unexpected(written.error());
  return fresh;
}

}  // namespace nodus::executor
