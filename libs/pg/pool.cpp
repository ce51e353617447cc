#include <condition_variable>
#include <mutex>

#include "libs/base/check.hpp"
#include "libs/pg/connection.hpp"

namespace nodus::pg {

struct Pool::State {
  std::mutex mutex;
  std::condition_variable returned;
  std::vector<std::unique_ptr<Connection>> all;
  std::vector<Connection*> idle;  // last in, first out: warm caches, and the cold ones stay unconnected
};

Pool::Pool(ConnectOptions options, int size) : state_(std::make_unique<State>()) {
  CHECK(size > 0, "size {}", size);
  for (int i = 0; i < size; ++i) {
    state_->all.push_back(std::make_unique<Connection>(options));
    state_->idle.push_back(state_->all.back().get());
  }
}

Pool::~Pool() {
  CHECK(state_->idle.size() == state_->all.size(), "{} connections are still leased",
        state_->all.size() - state_->idle.size());
}

Result<Pool::Lease> Pool::acquire(Millis patience) {
  std::unique_lock lock(state_->mutex);
  if (!state_->returned.wait_for(lock, patience, [&] { return !state_->idle.empty(); })) {
    auto error = fail(Code::kUnavailable, "DatabasePoolExhausted",
                      "Every database connection is in use; try again soon.");
    error.error().retry_after_s = 1;
    return error;
  }
  Connection* connection = state_->idle.back();
  state_->idle.pop_back();
  return Lease(this, connection);
}

Pool::Lease::~Lease() {
  if (connection_ == nullptr) return;
  {
    std::lock_guard lock(pool_->state_->mutex);
    pool_->state_->idle.push_back(connection_);
  }
  pool_->state_->returned.notify_one();
}

}  // namespace nodus::pg
