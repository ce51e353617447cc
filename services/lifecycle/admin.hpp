// The operator's commands on organizations and keys, on the database itself: whoever has its URL is the
// operator. Each is written to the organization's audit log, in the same transaction's order, as key
// "operator". Exit codes as those of the binary.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace nodus::lifecycle {

struct Config;

struct AdminRequest {
  std::string action;  // "org create", … : what was given
  std::string org;
  std::string display_name;
  std::string reason;
  std::string key;
  std::string role = "admin";
  std::string project;
  std::string key_file;
  // Quotas: a number or quantity, "default", or empty: unchanged.
  std::string sandboxes;
  std::string cpu;
  std::string stored_bytes;
  std::string creates_per_minute;
};

// Declares `admin …` below `app`; `request` outlives the parsing.
CLI::App* admin_options(CLI::App& app, AdminRequest& request);
int administer(const Config& config, const AdminRequest& request);

}  // namespace nodus::lifecycle
