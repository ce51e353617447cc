#include "tests/integration/bus/world.hpp"

#include <thread>

#include "libs/base/random.hpp"
#include "libs/telemetry/metrics.hpp"
#include "tests/integration/bus/broker.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace nodus::bus::test {

bool eventually(const std::function<bool()>& condition, Seconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(Millis(5));
  }
  return true;
}

TransportOptions fresh_transport(const std::string& kind) {
  TransportOptions options{.kind = kind, .partitions = kPartitions};
  if (kind == "kafka") {
    options.kafka_brokers = shared_broker().address();
    options.topic_prefix = "test." + random_uuid().substr(0, 8) + ".";
  }
  return options;
}

double metrics_value(const std::string& prefix) {
  const std::string text = "\n" + metrics::render();
  const auto at = text.find("\n" + prefix);
  if (at == std::string::npos) return 0;
  const auto end = text.find('\n', at + 1);
  const auto line = text.substr(at + 1, end - at - 1);
  return std::stod(line.substr(line.rfind(' ')));
}

Service::Service(const std::string& url, const std::string& name)
    : database{.url = url, .schema = name, .application_name = "bus-test-" + name},
      pool(database, 6),
      log(eventlog::make_postgres_log(clock, pool, kPartitions).value()) {}

World::World(const std::string& kind)
    : url_(nodus::test::fresh_database(nodus::test::log_files({"libs/bus/sql/inbox.sql"}), "lifecycle")),
      transport_(fresh_transport(kind)) {
  nodus::test::add_schema(
      url_, nodus::test::log_files({"libs/bus/sql/inbox.sql", "tests/integration/bus/effects.sql"}),
      "scheduler");
  open();
}

World::~World() {
  writer_->log->on_commit(nullptr);
}

void World::open() {
  writer_ = std::make_unique<Service>(url_, "lifecycle");
  reader_ = std::make_unique<Service>(url_, "scheduler");
}

void World::append(const std::string& stream, int count, const std::string& type) {
  std::vector<eventlog::Work> works;
  for (int i = 0; i < count; ++i)
    works.push_back({.streams = {stream}, .decide = [&](eventlog::Unit& unit) -> Result<std::string> {
                       unit.append(stream, {{type, "payload of " + stream}}, "state", 1);
                       return "";
                     }});
  for (const auto& answer : writer_->log->run(works))
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
  std::lock_guard lock(mutex_);
  appended_[stream] += count;
}

void World::start_relay() {
  auto relay = make_relay(transport_, "lifecycle", *writer_->log, writer_->database);
  ASSERT_TRUE(relay.has_value()) << relay.error().message;
  relay_ = std::move(*relay);
  writer_->log->on_commit([weak = std::weak_ptr(relay_)](const auto&) {
    if (auto strong = weak.lock()) strong->nudge();
  });
}

Result<std::unique_ptr<Source>> World::source(OffsetOf offset_of) {
  return make_source(transport_, "lifecycle", "scheduler", reader_->database, std::move(offset_of));
}

std::unique_ptr<Consumer> World::consume(ConsumerOptions options) {
  return consume([this](OffsetOf offset_of) { return source(std::move(offset_of)); }, options);
}

std::unique_ptr<Consumer> World::consume(std::function<Result<std::unique_ptr<Source>>(OffsetOf)> open,
                                         ConsumerOptions options) {
  return make_consumer("lifecycle", std::move(open), *reader_->log, reader_->pool, route(), options);
}

Route World::route() {
  return [this](const Message& message) -> Result<std::optional<eventlog::Work>> {
    if (message.type == "ignored") return std::nullopt;
    if (message.type == "unroutable" && !healed) return fail(Code::kInvalid, "Unroutable", "No such type.");
    EXPECT_EQ(message.payload, "payload of " + message.stream);
    const std::string own = "seen/" + message.stream;
    return eventlog::Work{.streams = {own},
                          .decide = [this, message, own](eventlog::Unit& unit) -> Result<std::string> {
                            if (message.type == "poison" && !healed)
                              return fail(Code::kInvalid, "Poison", "Cannot be applied.");
                            if (message.type == "later" && !healed)
                              return fail(Code::kUnavailable, "Later", "Not yet.");
                            const bool rejected = message.type == "rejected" && !healed;
                            unit.append(own, {{"seen", message.payload}}, std::to_string(message.version), 1);
                            unit.project([message, rejected](pg::Tx& tx) {
                              tx.exec_params("INSERT INTO effects (stream, version) VALUES ($1, $2)",
                                             message.stream, rejected ? -1 : message.version);
                            });
                            return "";
                          }};
  };
}

std::vector<Effect> World::effects() {
  auto found = reader_->pool.with_tx([](pg::Tx& tx) -> Result<std::vector<Effect>> {
    std::vector<Effect> effects;
    for (const auto& row : tx.exec("SELECT stream, version FROM effects ORDER BY id"))
      effects.push_back({row[0].as<std::string>(), row[1].as<int64_t>()});
    return effects;
  });
  return found ? *found : std::vector<Effect>{};
}

std::vector<int64_t> World::versions_of(const std::string& stream) {
  std::vector<int64_t> versions;
  for (const auto& effect : effects())
    if (effect.stream == stream) versions.push_back(effect.version);
  return versions;
}

testing::AssertionResult World::applied_exactly_once() {
  std::map<std::string, int64_t> last;
  for (const auto& effect : effects()) {
    if (effect.version != last[effect.stream] + 1)
      return testing::AssertionFailure()
             << effect.stream << ": " << effect.version << " after " << last[effect.stream];
    last[effect.stream] = effect.version;
  }
  std::lock_guard lock(mutex_);
  for (const auto& [stream, count] : appended_)
    if (last[stream] != count)
      return testing::AssertionFailure() << stream << ": " << last[stream] << " of " << count;
  return testing::AssertionSuccess();
}

bool World::wait_for_effects(size_t count) {
  return eventually([&] { return scalar("SELECT count(*) FROM effects") >= static_cast<int64_t>(count); });
}

int64_t World::scalar(const std::string& sql) {
  auto found =
      reader_->pool.with_tx([&](pg::Tx& tx) -> Result<int64_t> { return tx.exec1(sql)[0].as<int64_t>(); });
  return found ? *found : -1;
}

void World::execute(const std::string& sql) {
  auto done = writer_->pool.with_tx([&](pg::Tx& tx) -> Result<> {
    tx.exec0(sql);
    return {};
  });
  ASSERT_TRUE(done.has_value()) << done.error().message;
}

}  // namespace nodus::bus::test
