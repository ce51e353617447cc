#include "libs/http/workers.hpp"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <latch>
#include <optional>

namespace nodus::http {
namespace {

namespace asio = boost::asio;

// Work that waits for its turn on one thread, and the order in which it had it.
class WorkersTest : public ::testing::Test {
 protected:
  // Queued, or refused, when this returns.
  void submit(Workers& workers, const std::string& lane, std::function<void()> job) {
    asio::co_spawn(
        io_,
        [this, &workers, lane, job = std::move(job)]() -> asio::awaitable<void> {
          if (!co_await workers.run(job, lane)) ++refused_;
        },
        asio::detached);
    io_.poll();
    io_.restart();
  }
  void submit(Workers& workers, const std::string& lane) {
    submit(workers, lane, [this, lane] {
      order_ += lane;
      if (left_) left_->count_down();
    });
  }

  asio::io_context io_;
  std::string order_;  // written by the one worker, read when all is done
  std::optional<std::latch> left_;
  int refused_ = 0;
};

TEST_F(WorkersTest, LanesAreServedInTurn) {
  Workers workers(1, 100);
  std::latch started(1);
  std::latch go(1);
  left_.emplace(8);
  submit(workers, "x", [&] {
    started.count_down();
    go.wait();
  });
  started.wait();
  for (int i = 0; i < 5; ++i) submit(workers, "a");
  submit(workers, "b");
  for (int i = 0; i < 2; ++i) submit(workers, "c");
  go.count_down();
  left_->wait();
  EXPECT_EQ(order_, "abcacaaa");
}

TEST_F(WorkersTest, OneLaneLeavesHalfOfTheQueueToOthers) {
  Workers workers(1, 10);
  left_.emplace(6);
  std::latch started(1);
  std::latch go(1);
  submit(workers, "x", [&] {
    started.count_down();
    go.wait();
  });
  started.wait();
  for (int i = 0; i < 20; ++i) submit(workers, "a");
  io_.poll();
  EXPECT_EQ(refused_, 15);
  submit(workers, "b");
  io_.poll();
  EXPECT_EQ(refused_, 15);
  go.count_down();
  left_->wait();
  EXPECT_EQ(order_, "abaaaa");
}

}  // namespace
}  // namespace nodus::http
