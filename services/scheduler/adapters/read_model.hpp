// The scheduler's rows in PostgreSQL: see migrations/scheduler. Thread-safe.
#pragma once

#include <memory>

#include "libs/pg/connection.hpp"
#include "services/scheduler/app/ports.hpp"

namespace nodus::scheduler {
std::unique_ptr<ReadModel> make_read_model(pg::Pool& pool);
}
