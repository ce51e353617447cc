#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <csignal>

#include "libs/telemetry/failpoint.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"

namespace nodus {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Metrics, SameNameAndLabelsIsOneSeries) {
  metrics::counter("nodus_test_things_total", "Things.", {{"kind", "a"}}).add(2);
  metrics::counter("nodus_test_things_total", "Things.", {{"kind", "a"}}).add();
  metrics::counter("nodus_test_things_total", "Things.", {{"kind", "b"}}).add(5);
  EXPECT_EQ(metrics::counter("nodus_test_things_total", "Things.", {{"kind", "a"}}).value(), 3);
  EXPECT_THAT(metrics::render(), HasSubstr("nodus_test_things_total{kind=\"b\"} 5"));
}

TEST(Metrics, GaugeAndHistogramRender) {
  auto gauge = metrics::gauge("nodus_test_depth_items", "Depth.");
  gauge.set(7);
  gauge.add(-2);
  EXPECT_EQ(gauge.value(), 5);
  metrics::histogram("nodus_test_wait_seconds", "Wait.", {0.1, 1}).observe(0.5);
  const std::string text = metrics::render();
  EXPECT_THAT(text, HasSubstr("nodus_test_depth_items 5"));
  EXPECT_THAT(text, HasSubstr("nodus_test_wait_seconds_bucket{le=\"1\"} 1"));
}

TEST(Metrics, CallbackIsReadWhenRenderedAndEndsWithItsHandle) {
  double value = 1;
  auto handle = metrics::gauge_callback("nodus_test_age_seconds", "Age.", [&] { return value; });
  value = 42;
  EXPECT_THAT(metrics::render(), HasSubstr("nodus_test_age_seconds 42"));
  handle.reset();
  EXPECT_THAT(metrics::render(), Not(HasSubstr("nodus_test_age_seconds")));
}

TEST(Metrics, AnEmptyHandleDoesNothing) {
  metrics::Counter().add();
  metrics::Gauge().set(1);
  metrics::Histogram().observe(1);
  EXPECT_EQ(metrics::Counter().value(), 0);
}

TEST(Failpoint, ErrorOnceThenNever) {
  EXPECT_EXIT(
      {
        setenv("NODUS_FAILPOINT", "a.b=error:2,c=error", 1);
        const bool right = !failpoint("a.b") && failpoint("a.b") && !failpoint("a.b") && failpoint("c") &&
                           failpoint("c") && !failpoint("other");
        _exit(right ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Failpoint, KillsTheProcessAtTheNamedTime) {
  EXPECT_EXIT(
      {
        setenv("NODUS_FAILPOINT", "x=kill:2", 1);
        if (failpoint("x")) _exit(1);
        failpoint("x");
        _exit(2);
      },
      testing::KilledBySignal(SIGKILL), "");
}

TEST(Failpoint, AMistakeEndsTheProcessWithASentence) {
  EXPECT_EXIT(
      {
        setenv("NODUS_FAILPOINT", "x=explode", 1);
        failpoint("x");
        _exit(0);
      },
      testing::ExitedWithCode(2), "NODUS_FAILPOINT");
}

TEST(Log, TakesEveryKindOfField) {
  log::init("test", "debug");
  log::debug("test.event", {{"text", "a\"b\n\x01\xff"}, {"n", 3}, {"f", 0.5}, {"yes", true}});
  log::init("test", "error");
  log::info("test.not_shown");
}

}  // namespace
}  // namespace nodus
