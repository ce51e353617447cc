// The Sandbox manifest: JSON ⇄ domain. Every fault of a manifest is reported at once, with its field path.
// Source: spec 001, the table of "Create a Sandbox".
#pragma once

#include <boost/json.hpp>

#include <map>
#include <string>
#include <vector>

#include "libs/base/error.hpp"
#include "services/lifecycle/domain/sandbox.hpp"

namespace nodus::lifecycle {

struct Manifest {
  std::string name;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  SandboxSpec spec;                        // without env: its digests need the key
  std::map<std::string, std::string> env;  // spec.env with its values
  bool run = true;                         // spec.state
};

// Every duration of the spec, so that a test need not wait for the real ones. The defaults are the spec's.
struct SpecTimes {
  Micros idle_default = std::chrono::minutes(5);
  Micros idle_min = std::chrono::minutes(1);  // besides 0s: never idle
  Micros idle_max = std::chrono::hours(24);
  Micros lifetime_default = std::chrono::hours(24);
  Micros lifetime_min = std::chrono::minutes(1);
  Micros lifetime_max = std::chrono::hours(720);
  Micros command_default = std::chrono::minutes(10);
  Micros command_max = std::chrono::hours(24);
};

// BadRequest: not JSON, or not an object. Invalid: everything else, one cause for each fault.
Result<Manifest> parse_manifest(std::string_view body, const ProjectId& project, const SpecTimes& times = {});

// How a value of spec.env is shown.
inline constexpr std::string_view kHiddenValue = "***";

// Values of spec.env are shown as "***".
boost::json::object render_spec(const SandboxSpec& spec, bool run);

// The fields that differ, as paths below "spec", with both values; empty when both ask for the same.
struct Difference {
  std::string field;
  std::string existing;
  std::string requested;
};
std::vector<Difference> differences(const SandboxSpec& existing, const SandboxSpec& requested);

// Collects the faults of an object: wrong types, unknown fields, values out of range.
class Faults {
 public:
  void add(std::string field, std::string reason, std::string message);
  bool any() const { return !causes_.empty(); }
  Error error(const std::string& what) const;  // Invalid, all causes
  // The member if it is there and a string/object; else null, with a fault when the type is wrong.
  const boost::json::string* text(const boost::json::object& in, std::string_view key,
                                  const std::string& path);
  const boost::json::object* object(const boost::json::object& in, std::string_view key,
                                    const std::string& path);
  void only(const boost::json::object& in, const std::string& path,
            std::initializer_list<std::string_view> known);
  // The same for a part of a Sandbox: what its table of fields has (fields.hpp).
  void known(const boost::json::object& in, const std::string& path);

 private:
  std::vector<Cause> causes_;
};

// Without what changes nothing: "/a//b/./" is "/a/b".
std::string plain_directory(std::string_view path);
// An absolute path without empty, "." and ".." parts, and not under /proc, /sys or /dev.
bool valid_directory(std::string_view path);

Result<boost::json::object> parse_object(std::string_view body);

}  // namespace nodus::lifecycle
