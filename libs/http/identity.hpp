// Who a forwarded request speaks for: lifecycle authenticates, signs, and metering believes it for 30
// seconds. Header: X-Nodus-Identity: base64(JSON) "." hex(HMAC-SHA256(secret, base64)). Also the credential
// of a node: machine id "." hex(HMAC-SHA256(node secret, "node/" + machine id)), sent as a bearer token both
// ways.
#pragma once

#include <string>
#include <string_view>

#include "libs/base/clock.hpp"
#include "libs/base/ids.hpp"

namespace nodus::http {

struct Identity {
  OrgId org;
  ProjectId project;   // empty: the request is about the organization
  std::string key_id;  // of the API key
  std::string role;    // viewer | developer | billing | admin
};

std::string sign_identity(const Identity& identity, std::string_view secret, Instant now);
Result<Identity> verify_identity(std::string_view header, std::string_view secret, Instant now);
std::string node_token(std::string_view node_secret, const MachineId& machine);
// Whose token an Authorization header carries; says so before a body is read. Unauthenticated/Unauthorized.
Result<MachineId> verify_node_token(std::string_view authorization, std::string_view node_secret);

}  // namespace nodus::http
