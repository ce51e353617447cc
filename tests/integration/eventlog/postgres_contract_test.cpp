#include "tests/integration/eventlog/postgres_subject.hpp"

namespace nodus::eventlog::contract {
namespace {

INSTANTIATE_TEST_SUITE_P(Postgres, EventLogContract,
                         testing::Values(Implementation{"postgres",
                                                        [] { return std::make_unique<PostgresSubject>(); }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace nodus::eventlog::contract
