#include "libs/eventlog/memory_log.hpp"
#include "tests/unit/eventlog/contract.hpp"

namespace nodus::eventlog::contract {
namespace {

struct MemorySubject final : Subject {
  EventLog& log() override { return *log_; }
  std::unique_ptr<EventLog> log_ = make_memory_log(clock, 4);
};

INSTANTIATE_TEST_SUITE_P(Memory, EventLogContract,
                         testing::Values(Implementation{"memory",
                                                        [] { return std::make_unique<MemorySubject>(); }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace nodus::eventlog::contract
