#include "tests/integration/scheduler/stack.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "libs/base/check.hpp"
#include "libs/http/identity.hpp"
#include "tests/integration/scheduler/world.hpp"
#include "tests/support/postgres_fixture.hpp"

namespace nodus::scheduler::test {
namespace {

namespace fs = std::filesystem;

std::string three_schemas() {
  const auto url = fresh_database();
  for (const char* name : {"lifecycle", "metering"})
    nodus::test::add_schema(url, nodus::test::log_files({"libs/bus/sql/inbox.sql"}), name);
  return url;
}

pg::ConnectOptions options_of(const std::string& url, const std::string& schema) {
  auto options = connect_options(url);
  options.schema = schema;
  return options;
}

int free_port() {
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  CHECK(bind(s, reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(getsockname(s, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(s);
  return ntohs(address.sin_port);
}

}  // namespace

bool eventually(const std::function<bool()>& condition, Seconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(Millis(5));
  }
  return true;
}

Neighbour::Neighbour(const std::string& url, const std::string& name)
    : database_(options_of(url, name)),
      pool_(database_, 2),
      log_(std::move(*eventlog::make_postgres_log(clock_, pool_, kPartitions))),
      relay_(std::move(*bus::make_relay({}, name, *log_, database_))) {
  log_->on_commit([this](const auto&) { relay_->nudge(); });
}

void Neighbour::append(const std::string& stream, const google::protobuf::Message& event) {
  eventlog::Work work;
  work.streams = {stream};
  work.decide = [&](eventlog::Unit& unit) -> Result<std::string> {
    unit.append(stream, {{event.GetTypeName(), event.SerializeAsString()}}, "", 1);
    return "";
  };
  const std::vector works{work};
  const auto results = log_->run(works);
  CHECK(results.front().has_value(), "{}", results.front().error().message);
}

Stack::Stack(const std::string& more_settings)
    : url(three_schemas()),
      port(free_port()),
      lifecycle(url, "lifecycle"),
      metering(url, "metering"),
      pool_(connect_options(url), 2),
      log_(std::move(*eventlog::make_postgres_log(clock_, pool_, kPartitions))) {
  std::string pattern = "/tmp/nodus-scheduler-XXXXXX";
  CHECK(mkdtemp(pattern.data()) != nullptr);
  directory_ = pattern;
  std::ofstream(directory_ + "/scheduler.yaml")
      << "http: {listen: \"127.0.0.1:" << port << "\"}\ndatabase: {url: \"" << url << "\"}\n"
      << "scheduler:\n  defaultOrg: acme\n"
      << more_settings;
}

Stack::~Stack() {
  kill();
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

pid_t Stack::spawn(const std::vector<std::string>& arguments, int out) {
  std::vector<std::string> all = {NODUS_SCHEDULER, "--config", directory_ + "/scheduler.yaml"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> raw;
  for (auto& argument : all) raw.push_back(argument.data());
  raw.push_back(nullptr);
  const pid_t pid = fork();
  CHECK(pid >= 0, "fork");
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("NODUS_NODE_SECRET", kSecret, 1);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  execv(raw[0], raw.data());
  _exit(127);
}

void Stack::start() {
  pid_ = spawn({}, -1);
  http::Client client;
  http::ClientRequest ready;
  ready.url = "http://127.0.0.1:" + std::to_string(port) + "/readyz";
  CHECK(eventually([&] {
          const auto answer = client.call(ready);
          return answer && answer->status == 200;
        }),
        "the scheduler did not become ready");
}

void Stack::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

int Stack::end() {
  ::kill(pid_, SIGTERM);
  int status = 0;
  CHECK(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string Stack::run(const std::vector<std::string>& arguments, int* exit_code) {
  const auto file = directory_ + "/out";
  const int out = open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  int status = 0;
  const pid_t pid = spawn(arguments, out);
  CHECK(waitpid(pid, &status, 0) == pid);
  close(out);
  if (exit_code != nullptr) *exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<eventlog::Recorded> Stack::slot_events(const std::string& uid) {
  auto events = log_->read_stream("slot/" + uid, 0, 500);
  return events ? *events : std::vector<eventlog::Recorded>{};
}

std::vector<std::string> Stack::types(const std::string& uid) {
  std::vector<std::string> out;
  for (const auto& event : slot_events(uid)) out.push_back(event.type.substr(event.type.rfind('.') + 1));
  return out;
}

bool Stack::reaches(const std::string& uid, const std::string& type) {
  return eventually([&] {
    const auto all = types(uid);
    return !all.empty() && all.back() == type;
  });
}

void Stack::request_start(const std::string& uid, int64_t start) {
  lifecycle::v1::StartRequested m;
  m.set_uid(uid);
  m.set_start(start);
  m.set_org("acme");
  m.set_project("web");
  m.set_name(uid);
  m.mutable_spec()->mutable_shape()->set_cpu_milli(1000);
  m.mutable_spec()->mutable_shape()->set_memory_bytes(1 << 30);
  m.mutable_spec()->mutable_shape()->set_disk_bytes(1 << 30);
  lifecycle.append("sandbox/" + uid, m);
}

void Stack::fund(const std::string& uid, int64_t start) {
  metering::v1::StartFunded m;
  m.mutable_slot()->set_sandbox_uid(uid);
  m.mutable_slot()->set_start(start);
  metering.append("charge/" + uid, m);
}

void Stack::stop(const std::string& uid, int64_t start) {
  lifecycle::v1::StopRequested m;
  m.set_uid(uid);
  m.set_start(start);
  m.set_reason(common::v1::STOP_REASON_USER);
  lifecycle.append("sandbox/" + uid, m);
}

node::v1::SyncRequest sync_request(const std::string& machine) {
  node::v1::SyncRequest m;
  m.set_machine(machine);
  m.set_incarnation("boot-1");
  m.set_data_path("127.0.0.1:7410");
  m.mutable_capacity()->set_cpu_milli(4000);
  m.mutable_capacity()->set_memory_bytes(4LL << 30);
  m.mutable_capacity()->set_disk_bytes(4LL << 30);
  m.set_runtime("runsc");
  m.set_profile("production");
  return m;
}

std::string token_of(const std::string& machine) {
  return http::node_token(kSecret, MachineId(machine));
}

Result<http::Response> sync_once(int port, const std::string& token, const std::string& body,
                                 Millis patience) {
  http::Client client;
  http::ClientRequest request;
  request.method = "POST";
  request.url = "http://127.0.0.1:" + std::to_string(port) + "/node/v1/sync";
  if (!token.empty()) request.headers.set("Authorization", "Bearer " + token);
  request.headers.set("Content-Type", "application/x-protobuf");
  request.body = body;
  request.total_time = patience;
  return client.call(request);
}

FakeNode::FakeNode(int port, std::string machine)
    : port_(port), state_(sync_request(machine)), token_(token_of(machine)), thread_([this] { run(); }) {}

FakeNode::~FakeNode() {
  ending_ = true;
  thread_.join();
}

void FakeNode::run() {
  while (!ending_) {
    const auto answer = sync_once(port_, token_, state_.SerializeAsString());
    node::v1::SyncResponse told;
    if (answer && answer->status == 200 && told.ParseFromString(answer->body))
      hear(told);
    else
      std::this_thread::sleep_for(Millis(10));  // the scheduler is away
  }
}

void FakeNode::hear(const node::v1::SyncResponse& told) {
  state_.set_seen_version(told.version());
  state_.clear_slots();
  for (const auto& slot : told.slots()) {
    auto* status = state_.add_slots();
    status->set_sandbox_uid(slot.sandbox_uid());
    status->set_epoch(slot.epoch());
    status->set_phase(node::v1::SLOT_PHASE_RUNNING);
    if (slot.desired() != node::v1::DESIRED_STOP) continue;
    status->set_phase(node::v1::SLOT_PHASE_STOPPED);
    auto* point = status->mutable_restore_point();
    point->set_object("acme/" + slot.sandbox_uid());
    point->set_sha256(std::string(64, 'a'));
    point->set_size_bytes(1);
  }
}

}  // namespace nodus::scheduler::test
