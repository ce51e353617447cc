#include "services/executor/service.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "libs/base/signals.hpp"
#include "libs/http/server.hpp"
#include "libs/linux/files.hpp"
#include "libs/linux/unique_fd.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/executor/adapters/channel/activity_feed.hpp"
#include "services/executor/adapters/channel/node_channel.hpp"
#include "services/executor/adapters/linux/linux_host.hpp"
#include "services/executor/adapters/linux/slot_store.hpp"
#include "services/executor/app/reconciler.hpp"
#include "services/executor/process/process_service.hpp"
#include "services/executor/process/routes.hpp"
#include "services/executor/snapshot/directory_store.hpp"

namespace nodus::executor {
namespace {

constexpr int kMissing = 2;  // configuration or a missing dependency

int refuse(const Error& error) {
  fmt::print(stderr, "nodusd: {}\n", error.message);
  return kMissing;
}

// One nodusd a state directory, whoever started it. Held until the process ends.
Result<linux::UniqueFd> lock_state(const Config& config) {
  if (auto made = linux::make_directories(config.state); !made) return std::unexpected(made.error());
  const auto path = config.state / "lock";
  linux::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(Code::kUnavailable, "StateLocked",
                "state.directory: " + config.state.native() + " is in use by another nodusd.");
  return fd;
}

Result<std::string> choose_runtime(const Config& config) {
  const bool has_runsc = ::access((config.runtime_directory / "runsc").c_str(), X_OK) == 0;
  const std::string kind = config.runtime_kind != "auto" ? config.runtime_kind : has_runsc ? "runsc" : "runc";
  if (config.profile == "production" && kind != "runsc")
    return fail(Code::kUnavailable, "RuntimeMissing",
                "Production needs gVisor: put runsc into " + config.runtime_directory.native() +
                    " (runtime.directory), or set profile: dev for trusted code only.");
  return kind;
}

Result<std::unique_ptr<LinuxHost>> make_host(const Config& config, const std::string& kind) {
  return LinuxHost::make({.state = config.state,
                          .images = config.images,
                          .helper = std::filesystem::absolute(config.helper),
                          .pool = config.network_pool,
                          .resolvers = config.resolvers},
                         [&](const std::filesystem::path& root) {
                           const auto binary = (config.runtime_directory / kind).native();
                           return kind == "runsc" ? make_runsc(binary, root) : make_runc(binary, root);
                         });
}

// The rest of Sandbox isolation is the same; the kernel is not.
void say_runtime(LinuxHost& host, const std::string& profile) {
  const std::string kind = host.runtime().name();
  log::info(
      "node.runtime",
      {{"runtime", kind}, {"version", host.runtime().version().value_or("unknown")}, {"profile", profile}});
  if (kind == "runsc") return;
  log::warn("node.runtime.weak", {{"runtime", kind}});
  fmt::print(
      stderr,
      "nodusd: Sandboxes run under runc and share this machine's kernel: a boundary for development and "
      "trusted code, not for hostile code.\n");
}

// Answers the body of a 200.
Result<std::string> post_to_lifecycle(http::Client& client, const Config& config, const std::string& route,
                                      const std::string& body) {
  http::ClientRequest request;
  request.method = "POST";
  request.url = config.lifecycle_url + "/node/v1/" + route;
  request.headers.set("Content-Type", "application/x-protobuf");
  request.headers.set("Authorization", "Bearer " + config.node_token);
  request.body = body;
  auto response = client.call(request);
  if (!response) return std::unexpected(response.error());
  if (response->status != 200) return std::unexpected(http::parse_status(*response));
  return response->body;
}

// In the order of construction; the destructor ends them in the other direction.
struct Parts {
  Parts(const Config& c, LinuxHost& h, std::string incarnation)
      : config(c),
        host(h),
        records(c.state),
        snapshots(c.store, clock),
        outbox(
            {.directory = c.state / "reports", .machine = c.machine},
            [this](const std::string& body) -> Result<void> {
              auto posted = post_to_lifecycle(reports, config, "process-reports", body);
              return posted ? Result<void>() : std::unexpected(posted.error());
            },
            [this](const std::string& body) {
              return post_to_lifecycle(outputs, config, "process-output", body);
            }),
        processes({.output_bytes = c.output_bytes}, outbox,
                  [this](const std::string& uid) { waiters.notify(uid); }),
        reconciler(host, processes, snapshots, records,
                   {.parallel_starts = c.parallel_starts, .end_patience = c.end_patience}),
        channel({.url = c.scheduler_url, .token = c.node_token, .renew = [this] { return records.renew(); }},
                {.machine = c.machine,
                 .incarnation = std::move(incarnation),
                 .data_path = c.data_path,
                 .capacity = c.capacity,
                 .runtime = h.runtime().name(),
                 .profile = c.profile,
                 .org = c.org},
                reconciler),
        server({.listen = c.http_listen}),
        feed(c.machine) {
    activity_loop = std::jthread([this](const std::stop_token& stop) { tell_activity(stop); });
  }

  // As often as the reconciler looks.
  void tell_activity(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (
        !wake.wait_for(lock, stop, ReconcilerOptions{}.activity_every, [&] { return stop.stop_requested(); }))
      feed.look(reconciler.reports(), clock.boot(), [this](const std::string& body) {
        auto posted = post_to_lifecycle(activities, config, "activity", body);
        return posted ? Result<void>() : std::unexpected(posted.error());
      });
  }

  const Config& config;
  SystemClock clock;
  LinuxHost& host;
  SlotStore records;
  DirectoryStore snapshots;
  http::Client reports;  // of the outbox's thread
  http::Client outputs;  // of its uploader's
  ReportOutbox outbox;
  http::Waiters waiters;  // for the news of commands, by uid
  Processes processes;
  Reconciler reconciler;
  NodeChannel channel;
  http::Server server;
  ActivityFeed feed;  // of its loop's thread, as is its client
  http::Client activities;
  std::vector<std::shared_ptr<void>> gauges = make_gauges();
  std::jthread activity_loop;  // last: it uses the others

  std::vector<std::shared_ptr<void>> make_gauges() {
    std::vector<std::shared_ptr<void>> made;
    const std::pair<Phase, const char*> phases[] = {
        {Phase::kStarting, "Starting"}, {Phase::kRunning, "Running"}, {Phase::kDeclined, "Declined"},
        {Phase::kStopping, "Stopping"}, {Phase::kStopped, "Stopped"}, {Phase::kFailed, "Failed"}};
    for (const auto& [phase, name] : phases)
      made.push_back(metrics::gauge_callback(
          "nodus_node_slots", "Slots of this node",
          [this, counted = phase] {
            const auto slots = reconciler.reports();
            return static_cast<double>(
                std::count_if(slots.begin(), slots.end(), [&](const auto& r) { return r.phase == counted; }));
          },
          {{"phase", name}}));
    made.push_back(metrics::gauge_callback("nodus_node_denied_packets",
                                           "Packets of running Sandboxes that the firewall dropped", [this] {
                                             double sum = 0;
                                             if (const auto traffic = host.network().firewall().traffic())
                                               for (const auto& [index, counts] : *traffic)
                                                 sum += static_cast<double>(counts.denied_packets);
                                             return sum;
                                           }));
    return made;
  }
};

}  // namespace

int serve(const Config& config) {
  log::init("nodusd", config.log_level);
  const auto lock = lock_state(config);
  if (!lock) return refuse(lock.error());
  const auto kind = choose_runtime(config);
  if (!kind) return refuse(kind.error());
  auto host = make_host(config, *kind);
  if (!host) return refuse(host.error());
  if (auto sound = (*host)->self_check(); !sound) return refuse(sound.error());
  say_runtime(**host, config.profile);
  auto incarnation = SlotStore(config.state).incarnation();
  if (!incarnation) return refuse(incarnation.error());

  Parts parts(config, **host, *incarnation);
  data_path_routes(parts.server, parts.processes, parts.waiters, {.token = config.node_token});
  parts.server.health_routes([&] { return parts.channel.ready(); });
  if (auto started = parts.server.start(); !started) return refuse(started.error());
  if (auto recovered = parts.reconciler.recover(); !recovered) return refuse(recovered.error());
  // No offer before the catalog is unpacked: nobody's first start waits for that, and pays for it.
  std::thread opening([&] {
    (*host)->unpack_catalog();
    parts.channel.start();
  });
  wait_for_termination();
  log::info("node.draining");
  parts.server.stop();
  (*host)->stop_unpacking();
  opening.join();
  parts.channel.stop();
  parts.reconciler.stop();
  return 0;
}

int purge(const Config& config) {
  log::init("nodusd", config.log_level);
  const auto lock = lock_state(config);
  if (!lock) return refuse(lock.error());
  // What an earlier nodusd ran may be under either runtime.
  for (const char* kind : {"runsc", "runc"}) {
    if (::access((config.runtime_directory / kind).c_str(), X_OK) != 0) continue;
    auto host = make_host(config, kind);
    if (!host) return refuse(host.error());
    if (auto purged = (*host)->purge(); !purged) return refuse(purged.error());
  }
  return 0;
}

}  // namespace nodus::executor
