#include <gtest/gtest.h>

#include "libs/config/config.hpp"

namespace nodus::config {
namespace {

struct Case {
  std::string text;
  std::optional<int64_t> value;  // none: refused
};

TEST(Quantity, Bytes) {
  for (const auto& [text, value] : std::vector<Case>{{"0", 0},
                                                     {"1048576", 1048576},
                                                     {"1Ki", 1024},
                                                     {"512Mi", 512LL << 20},
                                                     {"2Gi", 2LL << 30},
                                                     {"0.5Gi", 512LL << 20},
                                                     {"1.5Gi", 1536LL << 20},
                                                     {".5Ki", 512},
                                                     {"1.Ki", 1024},
                                                     {"1Ti", 1LL << 40},
                                                     {"500M", 500'000'000},
                                                     {"1k", 1000},
                                                     {"2G", 2'000'000'000},
                                                     {"1T", 1'000'000'000'000},
                                                     {"128974848000m", 128974848},
                                                     {"0.50000000000000000000000000Gi", 512LL << 20},
                                                     {"000000000000000000000000000001", 1},
                                                     {"8191Pi", 8191LL << 50},
                                                     {"8192Pi", {}},
                                                     {"9223372036854775807", INT64_MAX},
                                                     {"9223372036854775808", {}},
                                                     {"4999999999e9", 4999999999000000000},
                                                     {"999999999999999999", 999999999999999999},
                                                     {"99999999999999999999999", {}},
                                                     {"0.5", {}},
                                                     {"1m", {}},
                                                     {"0.0000000001Gi", {}},
                                                     {"", {}},
                                                     {"Gi", {}},
                                                     {".", {}},
                                                     {"-1", {}},
                                                     {"+1", {}},
                                                     {" 1", {}},
                                                     {"1 ", {}},
                                                     {"1gi", {}},
                                                     {"1GiB", {}},
                                                     {"1..5Gi", {}},
                                                     {"1e3", 1000},
                                                     {"1.5E3", 1500},
                                                     {"25e-1", {}},
                                                     {"2500e-2", 25},
                                                     {"1e", {}},
                                                     {"1e+", {}},
                                                     {"1e19", {}},
                                                     {"1e-19", {}},
                                                     {"1e999", {}},
                                                     {"1e3Mi", {}},
                                                     {"1E", 1'000'000'000'000'000'000},
                                                     {"4Ei", 4'611'686'018'427'387'904},
                                                     {"8Ei", {}},
                                                     {"999999999999999999Ei", {}},
                                                     {"1000000u", 1},
                                                     {"1000000000n", 1},
                                                     {"1n", {}},
                                                     {"0x10", {}},
                                                     {"1,5Gi", {}},
                                                     {std::string(200, '1'), {}},
                                                     {"0." + std::string(60, '0') + "1", {}}}) {
    const auto got = parse_bytes(text);
    ASSERT_EQ(got.has_value(), value.has_value()) << text;
    if (got) EXPECT_EQ(*got, *value) << text;
  }
}

TEST(Quantity, Cpu) {
  for (const auto& [text, value] : std::vector<Case>{{"1", 1000},
                                                     {"250m", 250},
                                                     {"0.25", 250},
                                                     {"0.5", 500},
                                                     {"64", 64000},
                                                     {"1.001", 1001},
                                                     {"0.0005", {}},
                                                     {"0.5m", {}},
                                                     {"one", {}},
                                                     {"1k", 1'000'000}}) {
    const auto got = parse_cpu_milli(text);
    ASSERT_EQ(got.has_value(), value.has_value()) << text;
    if (got) EXPECT_EQ(*got, *value) << text;
  }
}

TEST(Quantity, FormatsShortestAndReadsBack) {
  EXPECT_EQ(format_cpu(1000), "1");
  EXPECT_EQ(format_cpu(250), "250m");
  EXPECT_EQ(format_bytes(2LL << 30), "2Gi");
  EXPECT_EQ(format_bytes(1536LL << 20), "1536Mi");
  EXPECT_EQ(format_bytes(1000), "1000");
  EXPECT_EQ(format_bytes(0), "0");
  for (const int64_t bytes : {0LL, 1LL, 1024LL, 1025LL, 10LL << 30, 123456789LL})
    EXPECT_EQ(parse_bytes(format_bytes(bytes)), bytes);
}

TEST(Duration, Reads) {
  for (const auto& [text, value] : std::vector<Case>{{"0", 0},
                                                     {"0s", 0},
                                                     {"250ms", 250'000},
                                                     {"30s", 30'000'000},
                                                     {"5m", 300'000'000},
                                                     {"2h", 7'200'000'000},
                                                     {"1h30m", 5'400'000'000},
                                                     {"1.5h", 5'400'000'000},
                                                     {"1m0.5s", 60'500'000},
                                                     {"10us", 10},
                                                     {"1000ns", 1},
                                                     {"1ns", {}},
                                                     {"5", {}},
                                                     {"m", {}},
                                                     {"-5m", {}},
                                                     {"5 m", {}},
                                                     {"5m ", {}},
                                                     {"5d", {}},
                                                     {"", {}},
                                                     {"99999999999999h", {}}}) {
    const auto got = parse_duration(text);
    ASSERT_EQ(got.has_value(), value.has_value()) << text;
    if (got) EXPECT_EQ(got->count(), *value) << text;
  }
}

TEST(Duration, FormatsShortest) {
  for (const auto& [micros, text] : std::vector<std::pair<int64_t, std::string>>{{0, "0s"},
                                                                                 {10, "10us"},
                                                                                 {250'000, "250ms"},
                                                                                 {1'500'000, "1.5s"},
                                                                                 {300'000'000, "5m"},
                                                                                 {90'000'000, "1m30s"},
                                                                                 {5'400'000'000, "1h30m"},
                                                                                 {3'600'000'000, "1h"},
                                                                                 {86'400'000'000, "24h"}}) {
    EXPECT_EQ(format_duration(Micros(micros)), text);
    EXPECT_EQ(parse_duration(text)->count(), micros);
  }
}

}  // namespace
}  // namespace nodus::config
