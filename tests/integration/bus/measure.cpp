// Not tests: figures, printed when asked for with --gtest_also_run_disabled_tests --gtest_filter='Measure*'.
#include <algorithm>
#include <mutex>
#include <thread>

#include "tests/integration/bus/world.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace nodus::bus::test {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

double ms_between(SteadyTime from, SteadyTime to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

void measure_latency(const std::string& kind) {
  nodus::test::use_durable_postgres();
  World world(kind);
  std::mutex mutex;
  std::map<std::string, SteadyTime> heard;
  world.start_relay();
  auto consumer = make_consumer(
      "lifecycle", [&](OffsetOf offset_of) { return world.source(std::move(offset_of)); },
      *world.reader().log, world.reader().pool,
      [&](const Message& message) -> Result<std::optional<eventlog::Work>> {
        auto work = world.route()(message);
        std::lock_guard lock(mutex);
        heard[message.stream] = std::chrono::steady_clock::now();
        return work;
      });
  std::vector<double> to_route;
  std::vector<double> to_apply;
  for (int i = 0; i < 300; ++i) {
    const std::string stream = "sandbox/" + std::to_string(i);
    world.append(stream);
    const auto committed = std::chrono::steady_clock::now();
    while (world.reader().log->head("seen/" + stream)->version == 0) {
    }
    to_apply.push_back(ms_between(committed, std::chrono::steady_clock::now()));
    std::lock_guard lock(mutex);
    to_route.push_back(ms_between(committed, heard[stream]));
  }
  std::ranges::sort(to_route);
  std::ranges::sort(to_apply);
  printf("%s: commit -> heard p50 %.2f ms p95 %.2f ms; commit -> effect committed p50 %.2f ms p95 %.2f ms\n",
         kind.c_str(), to_route[150], to_route[285], to_apply[150], to_apply[285]);
}

// Each message appends one event to a stream of the reader; no read model, whose cost is the service's own.
void measure_throughput(const std::string& kind) {
  nodus::test::use_durable_postgres();
  World world(kind);
  constexpr int kMessages = 40'000;
  for (int i = 0; i < kMessages / 200; ++i) world.append("sandbox/" + std::to_string(i % 100), 200);
  world.start_relay();
  const auto begun = std::chrono::steady_clock::now();
  auto consumer = make_consumer(
      "lifecycle", [&](OffsetOf offset_of) { return world.source(std::move(offset_of)); },
      *world.reader().log, world.reader().pool,
      [](const Message& message) -> Result<std::optional<eventlog::Work>> {
        const std::string own = "seen/" + message.stream;
        return eventlog::Work{.streams = {own},
                              .decide = [own, message](eventlog::Unit& unit) -> Result<std::string> {
                                unit.append(own, {{"seen", message.payload}}, "state", 1);
                                return "";
                              }};
      },
      {.max_batch = 512});
  ASSERT_TRUE(eventually(
      [&] { return world.scalar("SELECT sum(position) FROM consumer_offsets") == kMessages; }, Seconds(120)));
  const double seconds = ms_between(begun, std::chrono::steady_clock::now()) / 1e3;
  consumer->stop();
  printf("%s: %d messages applied in %.2f s, %.0f /s (one event each)\n", kind.c_str(), kMessages, seconds,
         kMessages / seconds);
}

// The bell must not slow the writers: NOTIFY inside the append would halve their commits.
void measure_doorbell() {
  nodus::test::use_durable_postgres();
  for (const bool with_bell : {false, true, false, true}) {
    World world("log");
    if (with_bell) world.start_relay();
    const auto begun = std::chrono::steady_clock::now();
    std::vector<std::thread> writers;
    for (int w = 0; w < 4; ++w)
      writers.emplace_back([&, w] {
        for (int i = 0; i < 300; ++i) world.append("sandbox/" + std::to_string(w));
      });
    for (auto& writer : writers) writer.join();
    printf("%s: %.0f commits/s\n", with_bell ? "with the doorbell" : "without",
           1200 / (ms_between(begun, std::chrono::steady_clock::now()) / 1e3));
  }
}

TEST(Measure, DISABLED_Doorbell) {
  measure_doorbell();
}
TEST(Measure, DISABLED_LatencyLog) {
  measure_latency("log");
}
TEST(Measure, DISABLED_LatencyKafka) {
  measure_latency("kafka");
}
TEST(Measure, DISABLED_ThroughputLog) {
  measure_throughput("log");
}
TEST(Measure, DISABLED_ThroughputKafka) {
  measure_throughput("kafka");
}

}  // namespace
}  // namespace nodus::bus::test
