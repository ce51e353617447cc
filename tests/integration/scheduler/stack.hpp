// The real nodus-scheduler as a process of its own, between logs of lifecycle and metering that the test
// writes and a node that speaks the node channel.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "libs/bus/bus.hpp"
#include "libs/eventlog/postgres_log.hpp"
#include "libs/http/client.hpp"
#include "nodus/lifecycle/v1/events.pb.h"
#include "nodus/metering/v1/events.pb.h"
#include "nodus/node/v1/channel.pb.h"
#include "nodus/scheduler/v1/events.pb.h"

namespace nodus::scheduler::test {

bool eventually(const std::function<bool()>& condition, Seconds deadline = Seconds(30));

inline constexpr const char* kSecret = "node-secret-of-the-test";

// A neighbour's end: its log, whose relay rings the scheduler's doorbell.
class Neighbour {
 public:
  Neighbour(const std::string& url, const std::string& name);
  void append(const std::string& stream, const google::protobuf::Message& event);

 private:
  SystemClock clock_;
  pg::ConnectOptions database_;
  pg::Pool pool_;
  std::unique_ptr<eventlog::EventLog> log_;
  std::unique_ptr<bus::Relay> relay_;
};

class Stack {
 public:
  explicit Stack(const std::string& more_settings = "  poll: 1s\n");
  ~Stack();
  void start();  // and waits until it is ready
  void kill();   // SIGKILL
  int end();     // SIGTERM; its exit code
  std::string run(const std::vector<std::string>& arguments,
                  int* exit_code = nullptr);  // an operator's command

  std::vector<eventlog::Recorded> slot_events(const std::string& uid);
  std::vector<std::string> types(const std::string& uid);
  bool reaches(const std::string& uid,
               const std::string& type);  // waits until its last event is of that type
  template <class Event>
  Event last(const std::string& uid) {
    Event event;
    const auto events = slot_events(uid);
    if (!events.empty()) event.ParseFromString(events.back().payload);
    return event;
  }

  void request_start(const std::string& uid, int64_t start = 1);
  void fund(const std::string& uid, int64_t start = 1);
  void stop(const std::string& uid, int64_t start = 1);

  std::string url;
  int port = 0;
  Neighbour lifecycle, metering;

 private:
  pid_t spawn(const std::vector<std::string>& arguments, int out);

  std::string directory_;
  SystemClock clock_;
  pg::Pool pool_;
  std::unique_ptr<eventlog::EventLog> log_;
  pid_t pid_ = -1;
};

// A node that does what it is told at once, in a thread of its own; it outlives restarts of the scheduler.
class FakeNode {
 public:
  FakeNode(int port, std::string machine);
  ~FakeNode();

 private:
  void run();
  void hear(const node::v1::SyncResponse& told);

  const int port_;
  node::v1::SyncRequest state_;
  std::string token_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

node::v1::SyncRequest sync_request(const std::string& machine);
// One sync by hand.
Result<http::Response> sync_once(int port, const std::string& token, const std::string& body,
                                 Millis patience = Millis(10'000));
std::string token_of(const std::string& machine);

}  // namespace nodus::scheduler::test
