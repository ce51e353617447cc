// Quantities, durations and money: what is accepted is written and read again as the same value.
#include "libs/config/config.hpp"
#include "libs/money/money.hpp"
#include "tests/fuzz/expect.hpp"

using namespace nodus;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto cpu = config::parse_cpu_milli(text))
    EXPECT_THAT_ALWAYS(*cpu >= 0 && config::parse_cpu_milli(config::format_cpu(*cpu)) == *cpu);
  if (const auto bytes = config::parse_bytes(text))
    EXPECT_THAT_ALWAYS(*bytes >= 0 && config::parse_bytes(config::format_bytes(*bytes)) == *bytes);
  if (const auto duration = config::parse_duration(text))
    EXPECT_THAT_ALWAYS(duration->count() >= 0 &&
                       config::parse_duration(config::format_duration(*duration)) == *duration);
  if (const auto money = Money::parse(text)) EXPECT_THAT_ALWAYS(Money::parse(money->to_decimal()) == *money);
  return 0;
}
