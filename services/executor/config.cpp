#include "services/executor/config.hpp"

#include "libs/config/config.hpp"

namespace nodus::executor {

Result<Config> read_config(const std::string& path, std::string* printed) {
  auto document = config::load_file(path);
  if (!document) return std::unexpected(document.error());
  config::Reader in(*document);
  Config c;
  c.machine = in.text("machine");
  c.org = in.text("org", "");
  c.profile = in.choice("profile", {"production", "dev"}, "production");
  c.http_listen = in.text("http.listen", "127.0.0.1:7410");
  c.data_path = in.text("dataPath", c.http_listen);
  c.scheduler_url = in.text("scheduler.url", "http://127.0.0.1:7401");
  c.lifecycle_url = in.text("lifecycle.url", "http://127.0.0.1:7400");
  c.log_level = in.text("log.level", "info");
  c.state = in.text("state.directory", "/var/lib/nodus/node");
  c.store = in.text("store.directory", "/var/lib/nodus/store");
  c.images = in.text("images.directory", "/var/lib/nodus/images");
  c.helper = in.text("helper", "/usr/lib/nodus/nodus-helper");
  c.runtime_kind = in.choice("runtime.kind", {"auto", "runsc", "runc"}, "auto");
  c.runtime_directory = in.text("runtime.directory", "/usr/lib/nodus");
  c.capacity.cpu_milli = in.integer("capacity.cpuMilli", 8'000, 250, 1'000'000);
  c.capacity.memory_bytes = in.quantity("capacity.memory", "16Gi");
  c.capacity.disk_bytes = in.quantity("capacity.disk", "400Gi");
  c.network_pool = in.text("network.pool", "10.201.0.0/16");
  c.resolvers = in.texts("network.resolvers", {"1.1.1.1", "8.8.8.8"});
  c.parallel_starts = static_cast<int>(in.integer("slots.parallelStarts", 4, 1, 64));
  c.end_patience = std::chrono::duration_cast<Millis>(in.duration("slots.endPatience", Micros(10'000'000)));
  c.output_bytes = static_cast<uint64_t>(in.quantity("commands.outputBytes", "64Mi"));
  c.node_token = in.secret("NODUS_NODE_TOKEN");
  auto finished = in.finish();
  std::vector<Cause> faults = finished ? std::vector<Cause>{} : finished.error().causes;
  // Sockets live below it, and the path of a socket has 107 characters.
  constexpr size_t kLongest = 44;
  if (c.state.native().size() > kLongest)
    faults.push_back({"state.directory", "FieldValueInvalid", "The path is longer than 44 characters."});
  if (printed != nullptr) *printed = in.print();
  if (faults.empty()) return c;
  Error error = finished ? Error{Code::kInvalid, "ConfigurationInvalid", "The configuration has faults."}
                         : finished.error();
  error.causes = std::move(faults);
  return std::unexpected(error);
}

}  // namespace nodus::executor
